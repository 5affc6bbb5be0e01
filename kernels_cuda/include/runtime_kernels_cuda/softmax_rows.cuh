// Softmax in one pass over the keys (Milakov & Gimelshein 2018, arXiv:1805.02867), for tiles of
// scores in registers, laid out as mma.sync and wgmma leave them: of a warp's 16 rows, thread t
// has rows t / 4 and t / 4 + 8, and of each 8 columns n columns 2 (t % 4) and the next:
// s[4 n + {0, 1}] of the first row, s[4 n + {2, 3}] of the second.
#pragma once

#include "runtime_kernels_cuda/ptx.cuh"

namespace runtime_kernels_cuda {

constexpr float kLn2 = 0.6931471805599453f;

template <typename T>
__device__ __forceinline__ uint32_t pack(float low, float high) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  } else {
    const __half2 both = __floats2half2_rn(low, high);
    return *reinterpret_cast<const uint32_t*>(&both);
  }
}

// How products of queries and keys become exponents of 2.
struct ScoreScale {
  float cap_scale;  // With a soft cap: of 2 ** (2 log2(e) score / cap).
  float log2_scale;

  __device__ ScoreScale(float scale, float soft_cap)
      : cap_scale(soft_cap > 0.0f ? 2.0f * kLog2E * scale / soft_cap : 0.0f),
        log2_scale((soft_cap > 0.0f ? soft_cap : scale) * kLog2E) {}

  // tanh(x) = 1 - 2 / (exp(2 x) + 1)
  template <int N>
  __device__ __forceinline__ void cap(float (&s)[N]) const {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      s[i] = 1.0f - __fdividef(2.0f, fast_exp2(s[i] * cap_scale) + 1.0f);
    }
  }
};

// Hide keys that a row does not see. Columns up to `last` are visible, those up to `last - window`
// are not; both are counted from the thread's first column.
template <int N>
__device__ __forceinline__ void hide(float (&s)[N], const int (&last)[2], int window) {
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int column = i / 4 * 8 + i % 2, limit = last[i / 2 % 2];
    if (column > limit || column <= limit - window) s[i] = -INFINITY;
  }
}

// The thread's two rows.
struct SoftmaxRows {
  float most[2] = {-INFINITY, -INFINITY};  // Of scores, before scaling.
  float total[2] = {0.0f, 0.0f};           // The thread's share, over 2 ** (log2_scale most).

  // Turn scores into weights, and return by what earlier sums fade.
  template <int N>
  __device__ __forceinline__ void add(float (&s)[N], float log2_scale, float (&fade)[2]) {
    float now[2] = {most[0], most[1]};
#pragma unroll
    for (int i = 0; i < N; ++i) now[i / 2 % 2] = fmaxf(now[i / 2 % 2], s[i]);
    float base[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      now[r] = fmaxf(now[r], __shfl_xor_sync(~0u, now[r], 1));
      now[r] = fmaxf(now[r], __shfl_xor_sync(~0u, now[r], 2));
      // Where a row has seen nothing so far, -inf - -inf would be no number.
      base[r] = now[r] == -INFINITY ? 0.0f : now[r] * log2_scale;
      fade[r] = fast_exp2(most[r] * log2_scale - base[r]);
      total[r] *= fade[r];
      most[r] = now[r];
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      s[i] = fast_exp2(fmaf(s[i], log2_scale, -base[i / 2 % 2]));
      total[i / 2 % 2] += s[i];
    }
  }

  // Of row r: the sum of all threads' shares. To be called once.
  __device__ __forceinline__ float whole(int r) const {
    float sum = total[r];
    sum += __shfl_xor_sync(~0u, sum, 1);
    return sum + __shfl_xor_sync(~0u, sum, 2);
  }
  // The natural logarithm of the row's sum of exponentials.
  __device__ __forceinline__ float lse(int r, float whole_sum, float log2_scale) const {
    return (most[r] * log2_scale + __log2f(whole_sum)) * kLn2;
  }
};

// o[row] *= by[row]
template <int N>
__device__ __forceinline__ void scale_rows(float (&o)[N], const float (&by)[2]) {
#pragma unroll
  for (int i = 0; i < N; ++i) o[i] *= by[i / 2 % 2];
}

// Write rows of N / 4 columns groups of 8, in 16 bytes a thread: four threads exchange what they
// have of four groups, so that each has one whole. `to` are the rows' first elements, null where
// none is to be written; columns from `columns` on are left out.
template <typename T, int N>
__device__ __forceinline__ void write_rows(const float (&o)[N], T* const (&to)[2], int columns) {
  static_assert(N % 16 == 0);
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int n = 0; n < N / 4; n += 4) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      uint32_t v[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = 4 * (n + j) + 2 * r;
        v[j] = pack<T>(o[i], o[i + 1]);
      }
      // The transpose of the four threads' 4 x 4 words, by halves.
#pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        const bool odd = (t & step) != 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if ((j & step) != 0) continue;
          const uint32_t got = __shfl_xor_sync(~0u, odd ? v[j] : v[j + step], step);
          (odd ? v[j] : v[j + step]) = got;
        }
      }
      const int column = 8 * (n + t);
      if (to[r] != nullptr && column < columns) {
        *reinterpret_cast<uint4*>(to[r] + column) = make_uint4(v[0], v[1], v[2], v[3]);
      }
    }
  }
}

}  // namespace runtime_kernels_cuda
