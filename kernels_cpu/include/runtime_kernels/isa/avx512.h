// Vectors of sixteen floats: AVX-512 F, BW, VL and DQ.
#pragma once

#include <immintrin.h>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

struct Vec {
  static constexpr int kWidth = 16;
  static constexpr int kRegisters = 32;

  __m512 v;

  static inline Vec set1(float x) { return {_mm512_set1_ps(x)}; }
  static inline Vec load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static inline Vec load(const bf16* p) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))};
  }
  static inline Vec load(const int8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  static inline Vec load(const f16* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  inline void store(float* p) const { _mm512_storeu_ps(p, v); }
  // Round to nearest, ties to even; a NaN stays one.
  inline void store(bf16* p) const {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i bias = _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff));
    const __m512i rounded = _mm512_srli_epi32(_mm512_add_epi32(bits, bias), 16);
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i words = _mm512_mask_mov_epi32(rounded, is_nan, _mm512_set1_epi32(0x7fc0));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16(words));
  }
  inline void store(f16* p) const {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  // Whole numbers within a byte.
  inline void store(int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
  }
  inline float sum() const { return _mm512_reduce_add_ps(v); }
  // For numbers.
  inline float highest() const { return _mm512_reduce_max_ps(v); }
};

inline Vec operator+(Vec a, Vec b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm512_div_ps(a.v, b.v)}; }
// a * b + c
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Vec round(Vec a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// The first and the second of each pair.
inline void split_pairs(const bf16* p, Vec* first, Vec* second) {
  const __m512i both = _mm512_loadu_si512(p);
  first->v = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
  second->v =
      _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}
// 2^a for whole a in [-127, 127]; 0 for -127.
inline Vec exp2_whole(Vec a) {
  const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(a.v), _mm512_set1_epi32(127));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(biased, 23))};
}
// a * 2^n for whole n.
inline Vec times_exp2(Vec a, Vec n) { return {_mm512_scalef_ps(a.v, n.v)}; }
// Row i, element j to row j, element i.
inline void transpose(Vec (&rows)[16]) {
  __m512 a[16], b[16];
  for (int i = 0; i < 16; i += 2) {
    a[i] = _mm512_unpacklo_ps(rows[i].v, rows[i + 1].v);
    a[i + 1] = _mm512_unpackhi_ps(rows[i].v, rows[i + 1].v);
  }
  for (int i = 0; i < 16; i += 4) {
    for (int j = 0; j < 2; ++j) {
      const __m512d low = _mm512_castps_pd(a[i + j]), high = _mm512_castps_pd(a[i + j + 2]);
      b[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
      b[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
    }
  }
  // b[4 q + e]: in each quarter l the elements 4 l + e of rows 4 q to 4 q + 3.
  for (int e = 0; e < 4; ++e) {
    const __m512 even01 = _mm512_shuffle_f32x4(b[e], b[4 + e], 0x88);
    const __m512 even23 = _mm512_shuffle_f32x4(b[8 + e], b[12 + e], 0x88);
    const __m512 odd01 = _mm512_shuffle_f32x4(b[e], b[4 + e], 0xdd);
    const __m512 odd23 = _mm512_shuffle_f32x4(b[8 + e], b[12 + e], 0xdd);
    rows[e].v = _mm512_shuffle_f32x4(even01, even23, 0x88);
    rows[8 + e].v = _mm512_shuffle_f32x4(even01, even23, 0xdd);
    rows[4 + e].v = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
    rows[12 + e].v = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
