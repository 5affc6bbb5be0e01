// Sums over a warp and over a block. The order of additions is fixed.
#pragma once

#include "runtime_kernels_cuda/device.h"

namespace runtime_kernels_cuda {

__device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(~0u, x, offset);
  return x;
}

// The block's sum in every thread. `shared` holds one float a warp, 32 at most; all warps are
// whole. Threads may call again at once only with other shared memory.
__device__ __forceinline__ float block_sum(float x, float* shared) {
  const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp, warps = blockDim.x / kWarp;
  x = warp_sum(x);
  if (warps == 1) return x;
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_sum(lane < warps ? shared[lane] : 0.0f);
}

}  // namespace runtime_kernels_cuda
