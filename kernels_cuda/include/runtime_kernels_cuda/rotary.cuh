// Rotary position embedding (Su et al. 2021, arXiv:2104.09864) and the write of keys and values
// to a paged cache, in one pass or either alone. A block a token.
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

// Elements as the cache has them; float8 is divided by its scale.
template <typename Out, typename T, int N>
__device__ __forceinline__ Vec<Out, N> for_cache(const Vec<T, N>& from, float scale) {
  Vec<Out, N> result;
#pragma unroll
  for (int j = 0; j < N; ++j) {
    if constexpr (sizeof(Out) == 1) {
      result[j] = from_float<Out>(to_float(from[j]) / scale);
    } else {
      result[j] = from[j];
    }
  }
  return result;
}

// N elements of both halves of a head's rotated part: element i turns with i + half.
template <typename T, int N>
__device__ __forceinline__ void turn(Vec<T, N>& first, Vec<T, N>& second, const Vec<T, N>& cos,
                                     const Vec<T, N>& sin) {
#pragma unroll
  for (int j = 0; j < N; ++j) {
    const float a = to_float(first[j]), b = to_float(second[j]);
    const float c = to_float(cos[j]), s = to_float(sin[j]);
    first[j] = from_float<T>(a * c - b * s);
    second[j] = from_float<T>(b * c + a * s);
  }
}

template <typename T, typename Cache, int N>
__global__ void __launch_bounds__(512) rotary_kernel(const RotaryArgs args) {
  using V = Vec<T, N>;
  allow_next();
  wait_for_previous();
  const int64_t token = blockIdx.x;
  const int size = args.head_size, half = args.rotated / 2;
  // Work of a head that is turned: pairs of vectors, then those that are copied.
  const int pairs = half / N, of_head = pairs + (size - args.rotated) / N;
  const int of_queries = args.heads * of_head, of_keys = args.kv_heads * of_head;
  const int of_values = args.value == nullptr ? 0 : args.kv_heads * (size / N);

  // What is not in the table or the cache would be read and written elsewhere in memory.
  const int64_t position = half == 0 ? 0 : args.positions[token];
  const int64_t slot = args.slots == nullptr ? token : args.slots[token];
  if (half != 0 && (position < 0 || position >= args.known_positions)) __trap();
  if (slot < 0 || slot >= args.known_slots) __trap();
  const T* cosines = static_cast<const T*>(args.table) + position * args.rotated;
  const int64_t cache_row = slot * args.kv_heads * size;
  float key_scale = 1.0f, value_scale = 1.0f;
  if constexpr (sizeof(Cache) == 1) {
    if (args.key_scale != nullptr) key_scale = *args.key_scale;
    if (args.value_scale != nullptr) value_scale = *args.value_scale;
  }

  for (int i = threadIdx.x; i < of_queries + of_keys + of_values; i += blockDim.x) {
    if (i >= of_queries + of_keys) {
      const int at = (i - of_queries - of_keys) * N;
      const V row = load<V>(static_cast<const T*>(args.value) + token * args.value_stride + at);
      store(static_cast<Cache*>(args.values) + cache_row + at, for_cache<Cache>(row, value_scale));
      continue;
    }
    const bool is_query = i < of_queries;
    const int j = is_query ? i : i - of_queries;
    const int head = j / of_head, part = j % of_head;
    const T* from = is_query ? static_cast<const T*>(args.query) + token * args.query_stride
                             : static_cast<const T*>(args.key) + token * args.key_stride;
    from += head * size;
    T* query_to = static_cast<T*>(args.query_out) + (token * args.heads + head) * size;
    Cache* key_to = static_cast<Cache*>(args.keys) + cache_row + head * size;
    auto put = [&](int at, const V& values) {
      if (is_query) {
        store(query_to + at, values);
      } else {
        store(key_to + at, for_cache<Cache>(values, key_scale));
      }
    };
    if (part < pairs) {
      const int at = part * N;
      V first = load<V>(from + at), second = load<V>(from + half + at);
      turn(first, second, load<V>(cosines + at), load<V>(cosines + half + at));
      put(at, first);
      put(half + at, second);
    } else {
      const int at = args.rotated + (part - pairs) * N;
      put(at, load<V>(from + at));
    }
  }
}

template <typename T, typename Cache, int N>
Error launch_rotary(const RotaryArgs& args, Stream stream) {
  const int of_head = (args.head_size - args.rotated / 2) / N;
  const int work = (args.heads + args.kv_heads) * of_head +
                   (args.value == nullptr ? 0 : args.kv_heads * args.head_size / N);
  const int threads = static_cast<int>(min(ceil_div(work, kWarp) * kWarp, int64_t{512}));
  return launch(rotary_kernel<T, Cache, N>, dim3(args.tokens), dim3(threads), 0, stream, args);
}

template <typename T, typename Cache>
Error launch_rotary(const RotaryArgs& args, Stream stream) {
  constexpr int N = vector_width<T>;
  const bool wide = args.head_size % N == 0 && args.rotated / 2 % N == 0 &&
                    args.query_stride % N == 0 && args.key_stride % N == 0 &&
                    args.value_stride % N == 0 && aligned(args.query) && aligned(args.key) &&
                    aligned(args.value) && aligned(args.table) && aligned(args.query_out) &&
                    aligned(args.keys) && aligned(args.values);
  return wide ? launch_rotary<T, Cache, N>(args, stream) : launch_rotary<T, Cache, 1>(args, stream);
}

template <typename T>
Error launch_rotary(const RotaryArgs& args, Stream stream) {
  return args.cache_dtype == DType::kFloat8E4M3 ? launch_rotary<T, Float8E4M3>(args, stream)
                                                : launch_rotary<T, T>(args, stream);
}

}  // namespace runtime_kernels_cuda
