// Dot products of bfloat16 pairs: AVX-512 BF16. Products are exact; sums are float32.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

template <>
struct Dot<bf16> {
  static constexpr int kStep = 32;
  struct Operand {
    __m512bh v;
  };
  static inline Operand load(const bf16* p) { return {(__m512bh)_mm512_loadu_si512(p)}; }
  static inline Operand load_part(const bf16* p, int64_t n) {
    bf16 whole[kStep] = {};
    std::memcpy(whole, p, static_cast<size_t>(n) * sizeof(bf16));
    return load(whole);
  }
  static inline Vec add(Operand a, Operand b, Vec sum) {
    return {_mm512_dpbf16_ps(sum.v, a.v, b.v)};
  }
};

// Elements of x beside pairs of weights, a pair of weights in each of a vector's lanes, and a pair
// of x that all lanes are multiplied with.
using PairElement = bf16;
// Rounded to nearest, but to zero below 2^-126.
inline void store_elements(Vec x, PairElement* p) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), (__m256i)_mm512_cvtneps_pbh(x.v));
}
struct Pairs {
  __m512bh v;
  static inline Pairs load(const bf16* p) { return {(__m512bh)_mm512_loadu_si512(p)}; }
};
struct PairValue {
  __m512bh v;
  explicit inline PairValue(const PairElement* x) {
    int32_t pair;
    std::memcpy(&pair, x, sizeof pair);
    v = (__m512bh)_mm512_set1_epi32(pair);
  }
  inline Vec add_to(Pairs w, Vec sum) const { return {_mm512_dpbf16_ps(sum.v, w.v, v)}; }
};

}  // namespace runtime_kernels::RUNTIME_ISA
