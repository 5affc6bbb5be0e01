// Root mean square normalisation (Zhang & Sennrich 2019, arXiv:1910.07467), alone and after a
// residual addition. A block a row.
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/reduce.cuh"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

// Each thread keeps `Kept` vectors of N elements; wider rows are read again.
template <typename T, int N, int Kept, bool Residual>
__global__ void __launch_bounds__(1024)
    rms_norm_kernel(const T* x, const T* residual, const T* weight, T* out, T* total, int width,
                    float eps) {
  using V = Vec<T, N>;
  __shared__ float shared[kWarp];
  const int vectors = width / N, step = blockDim.x;
  V kept[Kept], scales[Kept];
#pragma unroll
  for (int i = 0; i < Kept; ++i) {
    const int at = threadIdx.x + i * step;
    if (at < vectors) scales[i] = load<V>(weight + at * N);
  }
  allow_next();
  wait_for_previous();

  const int64_t row = static_cast<int64_t>(blockIdx.x) * width;
  float squares = 0.0f;
  // The row's elements in T: what is added is rounded before it is squared.
  auto read = [&](int at) {
    V values = load<V>(x + row + at * N);
    if constexpr (Residual) {
      const V added = load<V>(residual + row + at * N);
#pragma unroll
      for (int j = 0; j < N; ++j) {
        values[j] = from_float<T>(to_float(values[j]) + to_float(added[j]));
      }
      store(total + row + at * N, values);
    }
#pragma unroll
    for (int j = 0; j < N; ++j) squares += to_float(values[j]) * to_float(values[j]);
    return values;
  };
#pragma unroll
  for (int i = 0; i < Kept; ++i) {
    const int at = threadIdx.x + i * step;
    if (at < vectors) kept[i] = read(at);
  }
  for (int at = threadIdx.x + Kept * step; at < vectors; at += step) read(at);

  const float scale = rsqrtf(block_sum(squares, shared) / width + eps);
  auto write = [&](int at, const V& values, const V& weights) {
    V result;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      const T normed = from_float<T>(to_float(values[j]) * scale);
      result[j] = from_float<T>(to_float(normed) * to_float(weights[j]));
    }
    store(out + row + at * N, result);
  };
#pragma unroll
  for (int i = 0; i < Kept; ++i) {
    const int at = threadIdx.x + i * step;
    if (at < vectors) write(at, kept[i], scales[i]);
  }
  const T* again = Residual ? total : x;
  for (int at = threadIdx.x + Kept * step; at < vectors; at += step) {
    write(at, load<V>(again + row + at * N), load<V>(weight + at * N));
  }
}

template <typename T, int N, bool Residual>
Error launch_rms_norm(const RmsNormArgs& args, Stream stream) {
  const int64_t vectors = args.width / N;
  // Few rows: a vector a thread, so that each waits for memory once. Many: several rows a
  // multiprocessor at once, with more in flight in each thread.
  const bool few = args.rows <= 2 * multiprocessors();
  const int64_t wanted = few ? vectors : ceil_div(vectors, 4);
  const int threads = static_cast<int>(min(ceil_div(wanted, kWarp) * kWarp, int64_t{1024}));
  const auto kernel = few && vectors <= threads ? rms_norm_kernel<T, N, 1, Residual>
                                                : rms_norm_kernel<T, N, 4, Residual>;
  return launch(kernel, dim3(args.rows), dim3(threads), 0, stream, static_cast<const T*>(args.x),
                static_cast<const T*>(args.residual), static_cast<const T*>(args.weight),
                static_cast<T*>(args.out), static_cast<T*>(args.total),
                static_cast<int>(args.width), args.eps);
}

template <typename T>
Error launch_rms_norm(const RmsNormArgs& args, Stream stream) {
  const bool wide = args.width % vector_width<T> == 0 && aligned(args.x) &&
                    aligned(args.residual) && aligned(args.weight) && aligned(args.out) &&
                    aligned(args.total);
  constexpr int N = vector_width<T>;
  if (args.residual == nullptr) {
    return wide ? launch_rms_norm<T, N, false>(args, stream)
                : launch_rms_norm<T, 1, false>(args, stream);
  }
  return wide ? launch_rms_norm<T, N, true>(args, stream)
              : launch_rms_norm<T, 1, true>(args, stream);
}

}  // namespace runtime_kernels_cuda
