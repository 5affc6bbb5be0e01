// Elements of narrow types, and accesses of 16 bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "runtime_kernels_cuda/device.h"
#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

using BFloat16 = __nv_bfloat16;
using Float16 = __half;
using Float8E4M3 = __nv_fp8_e4m3;

__host__ __device__ __forceinline__ float to_float(float x) { return x; }
__host__ __device__ __forceinline__ float to_float(BFloat16 x) { return __bfloat162float(x); }
__host__ __device__ __forceinline__ float to_float(Float16 x) { return __half2float(x); }
__host__ __device__ __forceinline__ float to_float(Float8E4M3 x) { return static_cast<float>(x); }

// Rounds to nearest; float8 saturates.
template <typename T>
__host__ __device__ __forceinline__ T from_float(float x);
template <>
__host__ __device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__host__ __device__ __forceinline__ BFloat16 from_float<BFloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__host__ __device__ __forceinline__ Float16 from_float<Float16>(float x) {
  return __float2half_rn(x);
}
template <>
__host__ __device__ __forceinline__ Float8E4M3 from_float<Float8E4M3>(float x) {
  return Float8E4M3(x);
}

// N elements that are loaded and stored at once: with N of vector_width<T>, 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vec {
  T values[N];
  __host__ __device__ __forceinline__ T& operator[](int i) { return values[i]; }
  __host__ __device__ __forceinline__ const T& operator[](int i) const { return values[i]; }
};

template <typename T>
constexpr int vector_width = 16 / sizeof(T);

template <typename V, typename T>
__device__ __forceinline__ V load(const T* from) {
  static_assert(sizeof(V) <= 16);
  return *reinterpret_cast<const V*>(from);
}

template <typename V, typename T>
__device__ __forceinline__ void store(T* to, const V& values) {
  *reinterpret_cast<V*>(to) = values;
}

// Call f with a value of the element type.
template <typename F>
Error with_float_type(DType type, F f) {
  switch (type) {
    case DType::kFloat32:
      return f(float{});
    case DType::kBFloat16:
      return f(BFloat16{});
    case DType::kFloat16:
      return f(Float16{});
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace runtime_kernels_cuda
