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
    return make([&](int i) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p) + i); });
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

// Four signed bytes of x, which all rows are multiplied with.
struct Quad {
  int32_t bytes;
  static inline Quad pack(const int8_t* x) {
    Quad quad;
    std::memcpy(&quad.bytes, x, 4);
    return quad;
  }
};

#if defined(__AVXVNNI__)

constexpr bool kBytesAsFloats = false;

inline Sums dot(Sums sums, Bytes w, const Quad* x) {
  const __m256i four = _mm256_set1_epi32(x->bytes);
  for (int i = 0; i < 2; ++i) sums.v[i] = _mm256_dpbusd_avx_epi32(sums.v[i], w.v[i], four);
  return sums;
}

#else

using ByteVec = __m256i;
constexpr int kByteVecs = 2;

inline ByteVec part(const Bytes& bytes, int i) { return bytes.v[i]; }
inline ByteVec& part(Sums& sums, int i) { return sums.v[i]; }
inline ByteVec no_words() { return _mm256_setzero_si256(); }
inline ByteVec broadcast(Quad quad) { return _mm256_set1_epi32(quad.bytes); }
// Words of w's unsigned bytes by x's signed ones, two by two.
inline ByteVec add_products(ByteVec words, ByteVec w, ByteVec x) {
  return _mm256_add_epi16(words, _mm256_maddubs_epi16(w, x));
}
template <int kFactor>
inline ByteVec add_widened(ByteVec sums, ByteVec words) {
  return _mm256_add_epi32(sums, _mm256_madd_epi16(words, _mm256_set1_epi16(kFactor)));
}

// Blocks of eight bits are multiplied as floats: a product of bytes takes as many instructions
// here.
constexpr bool kBytesAsFloats = true;

// A byte of each of the sixteen rows.
template <int kByte>
inline void byte_floats(Bytes quads, Place<kByte>, Vec (&out)[2]) {
  for (int i = 0; i < 2; ++i) {
    __m256i own = _mm256_srli_epi32(quads.v[i], 8 * kByte);
    if (kByte < 3) own = _mm256_and_si256(own, _mm256_set1_epi32(255));
    out[i].v = _mm256_cvtepi32_ps(own);
  }
}

// Eight-bit weights are taken as signed ones, so their products need no offset.
constexpr bool kSignedBytes = true;

// Add the products of quads of eight-bit weights: |w| times x, whose sign is changed where w is
// negative. Two products are at most 2 * 128 * 127, which is all that a word holds.
template <int kRows, int kCount, int P>
[[gnu::always_inline]] inline void add_wide(Sums (&sums)[P], const Bytes* w,
                                            const Quad* const (&x)[P]) {
  Bytes bytes[kCount], magnitudes[kCount];
  for (int j = 0; j < kCount; ++j) {
    for (int i = 0; i < kByteVecs; ++i) {
      bytes[j].v[i] = _mm256_xor_si256(w[j].v[i], _mm256_set1_epi8(-128));
      magnitudes[j].v[i] = _mm256_abs_epi8(bytes[j].v[i]);
    }
  }
  for (int p = 0; p < P; p += kRows) {
    ByteVec own[kRows][kByteVecs];
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kByteVecs; ++i) own[r][i] = sums[p + r].v[i];
    }
    for (int j = 0; j < kCount; ++j) {
      for (int r = 0; r < kRows; ++r) {
        const ByteVec four = broadcast(x[p + r][j]);
        for (int i = 0; i < kByteVecs; ++i) {
          const ByteVec directed = _mm256_sign_epi8(four, bytes[j].v[i]);
          const ByteVec words = _mm256_maddubs_epi16(magnitudes[j].v[i], directed);
          own[r][i] = add_widened<1>(own[r][i], words);
        }
      }
    }
    for (int r = 0; r < kRows; ++r) {
      for (int i = 0; i < kByteVecs; ++i) sums[p + r].v[i] = own[r][i];
    }
  }
}

#endif

}  // namespace runtime_kernels::RUNTIME_ISA

#if defined(__AVXVNNI__)
#include "runtime_kernels/isa/quads_single.h"
#else
#include "runtime_kernels/isa/quads_words.h"
#endif
