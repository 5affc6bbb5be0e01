// Reductions and searches over a block of 32 warps. The order of operations is fixed, so that equal
// inputs give equal results.
#pragma once

#include "runtime_kernels_cuda/device.h"

namespace runtime_kernels_cuda {

constexpr int kFullBlock = kWarp * kWarp;  // Threads.

struct Sum {
  template <typename V>
  __device__ __forceinline__ V operator()(V a, V b) const {
    return a + b;
  }
};
struct Largest {
  template <typename V>
  __device__ __forceinline__ V operator()(V a, V b) const {
    return max(a, b);
  }
};

template <typename V, typename Combine>
__device__ __forceinline__ V warp_reduce(V x, Combine combine) {
#pragma unroll
  for (int o = kWarp / 2; o > 0; o /= 2) x = combine(x, __shfl_xor_sync(~0u, x, o));
  return x;
}

// In every thread. `shared` has one value a warp.
template <typename V, typename Combine>
__device__ __forceinline__ V full_block_reduce(V x, V* shared, Combine combine) {
  x = warp_reduce(x, combine);
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  x = warp_reduce(shared[threadIdx.x % kWarp], combine);
  __syncthreads();
  return x;
}

// This lane's and all before it.
template <typename V>
__device__ __forceinline__ V warp_prefix(V x) {
  const int lane = threadIdx.x % kWarp;
#pragma unroll
  for (int o = 1; o < kWarp; o *= 2) {
    const V before = __shfl_up_sync(~0u, x, o);
    if (lane >= o) x += before;
  }
  return x;
}

// This thread's and all before it.
template <typename V>
__device__ __forceinline__ V full_block_prefix(V x, V* shared) {
  x = warp_prefix(x);
  if (threadIdx.x % kWarp == kWarp - 1) shared[threadIdx.x / kWarp] = x;
  __syncthreads();
  const V of_warps = warp_prefix(shared[threadIdx.x % kWarp]);
  const int warp = threadIdx.x / kWarp;
  const V before = __shfl_sync(~0u, of_warps, warp > 0 ? warp - 1 : 0);
  __syncthreads();
  return warp > 0 ? x + before : x;
}

}  // namespace runtime_kernels_cuda
