// Sixty-four bytes, and their products with broadcast quads: AVX2, with AVX-VNNI where compiled so.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

// Sixteen rows of four unsigned bytes; a row's bytes lie together.
struct Bytes {
  __m256i v[2];

  template <class F>
  static inline Bytes make(F f) {
    return {{f(0), f(1)}};
  }
  static inline Bytes load(const uint8_t* p) {
    return make(
        [&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + i); });
  }
  template <int kShift>
  inline Bytes shifted_right() const {
    return make([&](int i) { return _mm256_srli_epi16(v[i], kShift); });
  }
  template <int kShift>
  inline Bytes shifted_left() const {
    return make([&](int i) { return _mm256_slli_epi16(v[i], kShift); });
  }
};
inline Bytes operator|(Bytes a, Bytes b) {
  return Bytes::make([&](int i) { return _mm256_or_si256(a.v[i], b.v[i]); });
}
inline Bytes operator&(Bytes a, uint8_t mask) {
  const __m256i wide = _mm256_set1_epi8(static_cast<char>(mask));
  return Bytes::make([&](int i) { return _mm256_and_si256(a.v[i], wide); });
}

// A whole number for each of the sixteen rows.
struct Sums {
  __m256i v[2];

  static inline Sums set1(int32_t x) { return {{_mm256_set1_epi32(x), _mm256_set1_epi32(x)}}; }
  inline void floats(Vec (&out)[2]) const {
    for (int i = 0; i < 2; ++i) out[i].v = _mm256_cvtepi32_ps(v[i]);
  }
};

inline void load_halves(const uint8_t* p, Vec (&out)[2]) {
  for (int i = 0; i < 2; ++i) out[i] = Vec::load(reinterpret_cast<const f16*>(p) + 8 * i);
}
inline void load_bytes(const uint8_t* p, Vec (&out)[2]) {
  for (int i = 0; i < 2; ++i) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p + 8 * i));
    out[i].v = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
  }
}

#if defined(__AVXVNNI__)

// Four signed bytes of x, which all rows are multiplied with.
struct Quad {
  int32_t bytes;
  static inline Quad pack(const int8_t* x) {
    Quad quad;
    std::memcpy(&quad.bytes, x, 4);
    return quad;
  }
};
template <bool kWide>
inline Sums dot(Sums sums, Bytes w, const Quad* x) {
  const __m256i four = _mm256_set1_epi32(x->bytes);
  for (int i = 0; i < 2; ++i) sums.v[i] = _mm256_dpbusd_avx_epi32(sums.v[i], w.v[i], four);
  return sums;
}

#else

// Four signed bytes of x, and again as words: the first and third, the second and fourth.
struct Quad {
  int32_t bytes, even, odd;
  static inline Quad pack(const int8_t* x) {
    Quad quad;
    const int16_t words[4] = {x[0], x[2], x[1], x[3]};
    std::memcpy(&quad.bytes, x, 4);
    std::memcpy(&quad.even, words, 8);
    return quad;
  }
};
// kWide: bytes of w may exceed 129, above which a sum of two products may exceed a word.
template <bool kWide>
inline Sums dot(Sums sums, Bytes w, const Quad* x) {
  for (int i = 0; i < 2; ++i) {
    __m256i products;
    if (kWide) {
      const __m256i even = _mm256_and_si256(w.v[i], _mm256_set1_epi16(0xff));
      const __m256i odd = _mm256_srli_epi16(w.v[i], 8);
      products = _mm256_add_epi32(_mm256_madd_epi16(even, _mm256_set1_epi32(x->even)),
                                  _mm256_madd_epi16(odd, _mm256_set1_epi32(x->odd)));
    } else {
      const __m256i words = _mm256_maddubs_epi16(w.v[i], _mm256_set1_epi32(x->bytes));
      products = _mm256_madd_epi16(words, _mm256_set1_epi16(1));
    }
    sums.v[i] = _mm256_add_epi32(sums.v[i], products);
  }
  return sums;
}

#endif

}  // namespace runtime_kernels::RUNTIME_ISA
