// Copies of blocks within a paged KV cache.
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

// blockIdx.y is the pair, blockIdx.z keys or values; each thread copies four units.
template <typename Unit>
__global__ void __launch_bounds__(256)
    copy_blocks_kernel(Unit* cache, const int64_t* pairs, int64_t blocks, int64_t units) {
  constexpr int kEach = 4;
  allow_next();
  wait_for_previous();
  const int64_t from = pairs[2 * blockIdx.y], to = pairs[2 * blockIdx.y + 1];
  if (from < 0 || from >= blocks || to < 0 || to >= blocks) __trap();
  Unit* half = cache + blockIdx.z * blocks * units;
  const int64_t first = blockIdx.x * int64_t{kEach} * blockDim.x + threadIdx.x;
  Unit values[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int64_t at = first + i * blockDim.x;
    if (at < units) values[i] = half[from * units + at];
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int64_t at = first + i * blockDim.x;
    if (at < units) half[to * units + at] = values[i];
  }
}

template <typename Unit>
Error launch_copy_blocks(const CopyBlocksArgs& args, Stream stream) {
  const int64_t units = args.block_bytes / sizeof(Unit);
  return launch(copy_blocks_kernel<Unit>, dim3(ceil_div(units, 4 * 256), args.count, 2), dim3(256),
                0, stream, static_cast<Unit*>(args.kv_cache), args.pairs, args.blocks, units);
}

}  // namespace runtime_kernels_cuda
