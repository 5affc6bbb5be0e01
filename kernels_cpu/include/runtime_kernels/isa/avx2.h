// Vectors of eight floats: AVX2, FMA and F16C.
#pragma once

#include <immintrin.h>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

struct Vec {
  static constexpr int kWidth = 8;
  static constexpr int kRegisters = 16;

  __m256 v;

  static inline Vec set1(float x) { return {_mm256_set1_ps(x)}; }
  static inline Vec load(const float* p) { return {_mm256_loadu_ps(p)}; }
  static inline Vec load(const bf16* p) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))};
  }
  static inline Vec load(const int8_t* p) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes))};
  }
  static inline Vec load(const f16* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
  }
  inline void store(float* p) const { _mm256_storeu_ps(p, v); }
  // Round to nearest, ties to even; a NaN stays one.
  inline void store(bf16* p) const {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i words = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0), is_nan);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(words, words), 0x08);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
  }
  inline void store(f16* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  // Whole numbers within a byte.
  inline void store(int8_t* p) const {
    const __m256i whole = _mm256_cvtps_epi32(v);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  inline float sum() const {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
  }
  // For numbers.
  inline float highest() const {
    __m128 s = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    s = _mm_max_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_max_ss(s, _mm_movehdup_ps(s)));
  }
};

inline Vec operator+(Vec a, Vec b) { return {_mm256_add_ps(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {_mm256_sub_ps(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {_mm256_mul_ps(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {_mm256_div_ps(a.v, b.v)}; }
// a * b + c
inline Vec fma(Vec a, Vec b, Vec c) { return {_mm256_fmadd_ps(a.v, b.v, c.v)}; }
inline Vec max(Vec a, Vec b) { return {_mm256_max_ps(a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {_mm256_min_ps(a.v, b.v)}; }
inline Vec round(Vec a) {
  return {_mm256_round_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// The first and the second of each pair.
inline void split_pairs(const bf16* p, Vec* first, Vec* second) {
  const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  first->v = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
  second->v =
      _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}
// 2^a for whole a in [-127, 127]; 0 for -127.
inline Vec exp2_whole(Vec a) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(a.v), _mm256_set1_epi32(127));
  return {_mm256_castsi256_ps(_mm256_slli_epi32(biased, 23))};
}
// a * 2^n for whole n.
inline Vec times_exp2(Vec a, Vec n) { return a * exp2_whole(max(n, Vec::set1(-127.0f))); }
// Row i, element j to row j, element i.
inline void transpose(Vec (&rows)[Vec::kWidth]) {
  float lanes[Vec::kWidth][Vec::kWidth], turned[Vec::kWidth][Vec::kWidth];
  for (int i = 0; i < Vec::kWidth; ++i) rows[i].store(lanes[i]);
  for (int i = 0; i < Vec::kWidth; ++i) {
    for (int j = 0; j < Vec::kWidth; ++j) turned[j][i] = lanes[i][j];
  }
  for (int i = 0; i < Vec::kWidth; ++i) rows[i] = Vec::load(turned[i]);
}

}  // namespace runtime_kernels::RUNTIME_ISA
