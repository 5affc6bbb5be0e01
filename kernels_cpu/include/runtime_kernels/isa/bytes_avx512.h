// Sixty-four bytes, and their products with broadcast quads: AVX-512, with VNNI where compiled so.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

// Sixteen rows of four unsigned bytes; a row's bytes lie together.
struct Bytes {
  __m512i v;

  static inline Bytes load(const uint8_t* p) { return {_mm512_loadu_si512(p)}; }
  template <int kShift>
  inline Bytes shifted_right() const {
    return {_mm512_srli_epi16(v, kShift)};
  }
  template <int kShift>
  inline Bytes shifted_left() const {
    return {_mm512_slli_epi16(v, kShift)};
  }
};
inline Bytes operator|(Bytes a, Bytes b) { return {_mm512_or_si512(a.v, b.v)}; }
inline Bytes operator&(Bytes a, uint8_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi8(static_cast<char>(mask)))};
}

// A whole number for each of the sixteen rows.
struct Sums {
  __m512i v;

  static inline Sums set1(int32_t x) { return {_mm512_set1_epi32(x)}; }
  inline void floats(Vec (&out)[1]) const { out[0].v = _mm512_cvtepi32_ps(v); }
};

inline void load_halves(const uint8_t* p, Vec (&out)[1]) {
  out[0] = Vec::load(reinterpret_cast<const f16*>(p));
}
inline void load_bytes(const uint8_t* p, Vec (&out)[1]) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  out[0].v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
}

#if defined(__AVX512VNNI__)

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
  return {_mm512_dpbusd_epi32(sums.v, w.v, _mm512_set1_epi32(x->bytes))};
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
  if (kWide) {
    const __m512i even = _mm512_and_si512(w.v, _mm512_set1_epi16(0xff));
    const __m512i odd = _mm512_srli_epi16(w.v, 8);
    const __m512i first = _mm512_madd_epi16(even, _mm512_set1_epi32(x->even));
    const __m512i second = _mm512_madd_epi16(odd, _mm512_set1_epi32(x->odd));
    return {_mm512_add_epi32(sums.v, _mm512_add_epi32(first, second))};
  }
  const __m512i words = _mm512_maddubs_epi16(w.v, _mm512_set1_epi32(x->bytes));
  return {_mm512_add_epi32(sums.v, _mm512_madd_epi16(words, _mm512_set1_epi16(1)))};
}

#endif

}  // namespace runtime_kernels::RUNTIME_ISA
