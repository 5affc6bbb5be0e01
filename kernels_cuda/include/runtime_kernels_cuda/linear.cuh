// The product of few rows with a weight matrix: y = x W^T. What it costs is reading W once.
//
// A block has 16 rows of W, its warps share the columns, and the tensor cores multiply tiles of
// 16 x 16 of W by 16 x 8 of x^T. The sum over columns is the same in any order, so each thread
// gives the instruction whichever columns it has: 8 consecutive ones, 16 bytes, of two rows of W
// and of one of x. Each thread copies its own part of W to shared memory and reads it back, many
// copies ahead, so nothing is waited for but memory. The first copies begin before the kernel in
// front has ended.
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/ptx.cuh"

namespace runtime_kernels_cuda {

constexpr int kLinearTile = 16;   // Rows of W of a block.
constexpr int kLinearChunk = 32;  // Columns that a warp takes at once.
constexpr int kLinearWarps = 8;   // Warps of a block, over the columns.
constexpr int kLinearDepth = 8;   // Chunks of a warp under way.
constexpr int kLinearRows = 8;    // Rows of x of one instruction.
constexpr int kLinearThreads = kLinearWarps * kWarp;
constexpr size_t kLinearShared = size_t{kLinearDepth} * 2 * kLinearThreads * sizeof(uint4);

// `Tiles` times 8 rows of x.
template <typename T, int Tiles>
__global__ void __launch_bounds__(kLinearThreads, Tiles == 1 ? 3 : 2)
    linear_kernel(const T* x, const T* weight, const T* bias, T* out, int rows, int n, int k) {
  constexpr int kGroup = kLinearDepth / Tiles;  // Chunks whose x is loaded at once.
  // [kLinearDepth][2][kLinearThreads]
  uint4* ring = reinterpret_cast<uint4*>(dynamic_shared());
  __shared__ float sums[kLinearWarps][Tiles * kLinearRows][kLinearTile + 1];
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
  const int row = lane / 4, column = lane % 4 * 8;  // Of a chunk.
  const int first = blockIdx.x * kLinearTile;
  const bool has_upper = first + row < n, has_lower = first + row + 8 < n;
  const T* upper = weight + (has_upper ? int64_t{first + row} * k : 0);
  const T* lower = weight + (has_lower ? int64_t{first + row + 8} * k : 0);
  const int chunks = (k + kLinearChunk - 1) / kLinearChunk;

  // The warp's chunk of that number begins at this column; all numbers may be asked for.
  auto column_of = [&](int number) {
    return (number * kLinearWarps + warp) * kLinearChunk + column;
  };
  auto fetch = [&](int number, int place) {
    const int at = column_of(number);
    if (at < k) {
      uint4* to = ring + place * 2 * kLinearThreads + threadIdx.x;
      start_copy(to, upper + at, has_upper);
      start_copy(to + kLinearThreads, lower + at, has_lower);
    }
    end_group();
  };
#pragma unroll
  for (int i = 0; i < kLinearDepth; ++i) fetch(i, i);
  allow_next();
  wait_for_previous();

  float partial[2][Tiles][4] = {};
  const int own = (chunks - warp + kLinearWarps - 1) / kLinearWarps;  // Chunks of this warp.
  for (int begin = 0; begin < own; begin += kGroup) {
    uint4 b[kGroup][Tiles];
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const int at = column_of(begin + i);
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const int x_row = tile * kLinearRows + row;
        const bool there = at < k && x_row < rows;
        b[i][tile] = there ? load<uint4>(x + int64_t{x_row} * k + at) : uint4{0, 0, 0, 0};
      }
    }
#pragma unroll
    for (int i = 0; i < kGroup; ++i) {
      const int number = begin + i, place = number % kLinearDepth;
      wait_for_groups<kLinearDepth - 1>();
      uint4 u{0, 0, 0, 0}, l{0, 0, 0, 0};
      if (column_of(number) < k) {
        const uint4* from = ring + place * 2 * kLinearThreads + threadIdx.x;
        u = from[0];
        l = from[kLinearThreads];
      }
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) {
        const uint4& v = b[i][tile];
        multiply<T>(partial[0][tile], u.x, l.x, u.y, l.y, v.x, v.y);
        multiply<T>(partial[1][tile], u.z, l.z, u.w, l.w, v.z, v.w);
      }
      // The place is free: what it held has been multiplied.
      fetch(number + kLinearDepth, place);
    }
  }

#pragma unroll
  for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int x_row = tile * kLinearRows + lane % 4 * 2 + i % 2;
      sums[warp][x_row][row + i / 2 * 8] = partial[0][tile][i] + partial[1][tile][i];
    }
  }
  __syncthreads();
  const int x_row = threadIdx.x / kLinearTile, feature = threadIdx.x % kLinearTile;
  if (x_row >= rows || first + feature >= n) return;
  float sum = bias == nullptr ? 0.0f : to_float(bias[first + feature]);
#pragma unroll
  for (int i = 0; i < kLinearWarps; ++i) sum += sums[i][x_row][feature];
  out[int64_t{x_row} * n + first + feature] = from_float<T>(sum);
}

template <typename T, int Tiles>
Error launch_linear(const LinearArgs& args, Stream stream) {
  const auto kernel = linear_kernel<T, Tiles>;
  const Error error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           static_cast<int>(kLinearShared));
  if (error != cudaSuccess) return error;
  return launch(kernel, dim3(ceil_div(args.n, kLinearTile)), dim3(kLinearThreads), kLinearShared,
                stream, static_cast<const T*>(args.x), static_cast<const T*>(args.weight),
                static_cast<const T*>(args.bias), static_cast<T*>(args.out),
                static_cast<int>(args.rows), static_cast<int>(args.n), static_cast<int>(args.k));
}

template <typename T>
Error launch_linear(const LinearArgs& args, Stream stream) {
  return args.rows <= kLinearRows ? launch_linear<T, 1>(args, stream)
                                  : launch_linear<T, 2>(args, stream);
}

}  // namespace runtime_kernels_cuda
