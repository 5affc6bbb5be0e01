// Sixty-four bytes, and their products with broadcast quads: AVX-512, with VNNI where compiled so.
#pragma once

#include <immintrin.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr bool kBytesAsFloats = false;

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

// Four signed bytes of x, which all rows are multiplied with.
struct Quad {
  int32_t bytes;
  static inline Quad pack(const int8_t* x) {
    Quad quad;
    std::memcpy(&quad.bytes, x, 4);
    return quad;
  }
};

#if defined(__AVX512VNNI__)

inline Sums dot(Sums sums, Bytes w, const Quad* x) {
  return {_mm512_dpbusd_epi32(sums.v, w.v, _mm512_set1_epi32(x->bytes))};
}

#else

using ByteVec = __m512i;
constexpr int kByteVecs = 1;

inline ByteVec part(const Bytes& bytes, int) { return bytes.v; }
inline ByteVec& part(Sums& sums, int) { return sums.v; }
inline ByteVec no_words() { return _mm512_setzero_si512(); }
inline ByteVec broadcast(Quad quad) { return _mm512_set1_epi32(quad.bytes); }
// Words of w's unsigned bytes by x's signed ones, two by two.
inline ByteVec add_products(ByteVec words, ByteVec w, ByteVec x) {
  return _mm512_add_epi16(words, _mm512_maddubs_epi16(w, x));
}
template <int kFactor>
inline ByteVec add_widened(ByteVec sums, ByteVec words) {
  return _mm512_add_epi32(sums, _mm512_madd_epi16(words, _mm512_set1_epi16(kFactor)));
}

constexpr bool kSignedBytes = false;

template <int kFactor, int kRows, int kCount>
[[gnu::always_inline]] inline void add_words(Sums* sums, const Bytes* w, const Quad* const* x);

// Add the products of quads of eight-bit weights, which are two of four bits each.
template <int kRows, int kCount, int P>
[[gnu::always_inline]] inline void add_wide(Sums (&sums)[P], const Bytes* w,
                                            const Quad* const (&x)[P]) {
  Bytes low[kCount], high[kCount];
  for (int j = 0; j < kCount; ++j) {
    low[j] = w[j] & 15;
    high[j] = w[j].shifted_right<4>() & 15;
  }
  for (int p = 0; p < P; p += kRows) {
    add_words<1, kRows, kCount>(sums + p, low, x + p);
    add_words<16, kRows, kCount>(sums + p, high, x + p);
  }
}

#endif

}  // namespace runtime_kernels::RUNTIME_ISA

#if defined(__AVX512VNNI__)
#include "runtime_kernels/isa/quads_single.h"
#else
#include "runtime_kernels/isa/quads_words.h"
#endif
