// The gates of SwiGLU and GeGLU feed-forward layers (Shazeer 2020, arXiv:2002.05202).
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

// SiLU, and GELU by tanh (Hendrycks and Gimpel 2016, arXiv:1606.08415), are both x times a
// sigmoid, since (1 + tanh u) / 2 is the sigmoid of 2 u. The quick division gives 0 where the
// divisor is above 2**126, as is right.
template <Activation activation>
__device__ __forceinline__ float activate(float x) {
  float exponent = x;
  if constexpr (activation == Activation::kGeluTanh) {
    constexpr float kTwice = 2 * 0.7978845608028654f;  // 2 sqrt(2 / pi)
    exponent = kTwice * (x + 0.044715f * x * x * x);
  }
  return __fdividef(x, 1.0f + __expf(-exponent));
}

// N elements a thread; `parts` blocks a row.
template <typename T, int N, Activation activation>
__global__ void __launch_bounds__(256) gate_kernel(const T* x, T* out, int width, int parts) {
  using V = Vec<T, N>;
  allow_next();
  wait_for_previous();
  const int64_t row = blockIdx.x / parts;
  const int at = ((blockIdx.x % parts) * blockDim.x + threadIdx.x) * N;
  if (at >= width) return;
  const V gates = load<V>(x + row * 2 * width + at);
  const V ups = load<V>(x + row * 2 * width + width + at);
  V result;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    result[j] = from_float<T>(activate<activation>(to_float(gates[j])) * to_float(ups[j]));
  }
  store(out + row * width + at, result);
}

template <typename T, int N>
Error launch_gate(const GateArgs& args, Stream stream) {
  const int64_t vectors = args.width / N;
  const int threads = static_cast<int>(min(ceil_div(vectors, kWarp) * kWarp, int64_t{128}));
  const int64_t parts = ceil_div(vectors, threads);
  const auto kernel = args.activation == Activation::kSilu
                          ? gate_kernel<T, N, Activation::kSilu>
                          : gate_kernel<T, N, Activation::kGeluTanh>;
  return launch(kernel, dim3(args.rows * parts), dim3(threads), 0, stream,
                static_cast<const T*>(args.x), static_cast<T*>(args.out),
                static_cast<int>(args.width), static_cast<int>(parts));
}

template <typename T>
Error launch_gate(const GateArgs& args, Stream stream) {
  constexpr int N = vector_width<T>;
  const bool wide = args.width % N == 0 && aligned(args.x) && aligned(args.out);
  return wide ? launch_gate<T, N>(args, stream) : launch_gate<T, 1>(args, stream);
}

}  // namespace runtime_kernels_cuda
