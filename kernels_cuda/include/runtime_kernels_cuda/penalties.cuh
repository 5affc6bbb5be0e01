// Penalties on tokens that a row has seen or given. A block has some of the vocabulary of one row:
// it counts the row's tokens that are among them in shared memory, then changes their logits.
#pragma once

#include "runtime_kernels_cuda/sampling_args.h"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

constexpr int kCells = 12288;  // Of a block: 48 KiB.
constexpr int kPenaltyThreads = 512;

// What is left of a logit of a token that the row has, `count` times in its output.
__host__ __device__ __forceinline__ float penalised(float x, int count, float repetition,
                                                    float presence, float frequency) {
  x = x > 0.0f ? x / repetition : x * repetition;
  return x - (count > 0 ? presence : 0.0f) - frequency * count;
}

template <typename T>
__global__ void __launch_bounds__(kPenaltyThreads) penalties_kernel(const PenaltyArgs args) {
  __shared__ unsigned cells[kCells];  // 1 for a token that is there, 2 for each of the output.
  allow_next();
  wait_for_previous();
  const int row = blockIdx.y, first = blockIdx.x * kCells;
  const int start = args.starts[row];
  const int stop = min(args.starts[row + 1], static_cast<int>(args.known));
  if (start >= stop) return;
  const int own = min(kCells, static_cast<int>(args.vocab) - first);
  const int output = args.output_starts[row];
  for (int i = threadIdx.x; i < own; i += kPenaltyThreads) cells[i] = 0;
  __syncthreads();
  for (int i = start + threadIdx.x; i < stop; i += kPenaltyThreads) {
    // Those of other blocks, and what is not in the vocabulary, are left out.
    const unsigned cell = static_cast<unsigned>(args.token_ids[i] - first);
    if (cell >= static_cast<unsigned>(own)) continue;
    if (i >= output) {
      atomicAdd(&cells[cell], 2u);
    } else {
      atomicOr(&cells[cell], 1u);
    }
  }
  __syncthreads();
  T* logits = static_cast<T*>(args.logits) + row * args.vocab + first;
  const float repetition = args.repetition[row], presence = args.presence[row];
  const float frequency = args.frequency[row];
  for (int i = threadIdx.x; i < own; i += kPenaltyThreads) {
    if (cells[i] == 0) continue;
    const int count = static_cast<int>(cells[i] / 2);
    logits[i] =
        from_float<T>(penalised(to_float(logits[i]), count, repetition, presence, frequency));
  }
}

template <typename T>
Error launch_penalties(const PenaltyArgs& args, Stream stream) {
  return launch(penalties_kernel<T>, dim3(ceil_div(args.vocab, kCells), args.rows),
                dim3(kPenaltyThreads), 0, stream, args);
}

}  // namespace runtime_kernels_cuda
