// Vectors of four floats: NEON of ARMv8.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

struct Vec {
  static constexpr int kWidth = 4;
  static constexpr int kRegisters = 32;

  float32x4_t v;

  static inline Vec set1(float x) { return {vdupq_n_f32(x)}; }
  static inline Vec load(const float* p) { return {vld1q_f32(p)}; }
  static inline Vec load(const bf16* p) {
    const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
    return {vreinterpretq_f32_u32(vshll_n_u16(bits, 16))};
  }
  static inline Vec load(const int8_t* p) {
    int32_t bits;
    std::memcpy(&bits, p, sizeof bits);
    const int8x8_t bytes = vreinterpret_s8_s32(vdup_n_s32(bits));
    return {vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(bytes))))};
  }
  static inline Vec load(const f16* p) {
    const uint16x4_t bits = vld1_u16(reinterpret_cast<const uint16_t*>(p));
    return {vcvt_f32_f16(vreinterpret_f16_u16(bits))};
  }
  inline void store(float* p) const { vst1q_f32(p, v); }
  // Round to nearest, ties to even; a NaN stays one.
  inline void store(bf16* p) const {
    const uint32x4_t bits = vreinterpretq_u32_f32(v);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
    const uint32x4_t bias = vaddq_u32(odd, vdupq_n_u32(0x7fff));
    const uint32x4_t rounded = vshrq_n_u32(vaddq_u32(bits, bias), 16);
    const uint32x4_t words = vbslq_u32(vceqq_f32(v, v), rounded, vdupq_n_u32(0x7fc0));
    vst1_u16(reinterpret_cast<uint16_t*>(p), vmovn_u32(words));
  }
  inline void store(f16* p) const {
    vst1_u16(reinterpret_cast<uint16_t*>(p), vreinterpret_u16_f16(vcvt_f16_f32(v)));
  }
  // Whole numbers within a byte.
  inline void store(int8_t* p) const {
    const int16x4_t words = vmovn_s32(vcvtnq_s32_f32(v));
    const int8x8_t bytes = vmovn_s16(vcombine_s16(words, words));
    const int32_t bits = vget_lane_s32(vreinterpret_s32_s8(bytes), 0);
    std::memcpy(p, &bits, sizeof bits);
  }
  inline float sum() const { return vaddvq_f32(v); }
  // For numbers.
  inline float highest() const { return vmaxvq_f32(v); }
};

inline Vec operator+(Vec a, Vec b) { return {vaddq_f32(a.v, b.v)}; }
inline Vec operator-(Vec a, Vec b) { return {vsubq_f32(a.v, b.v)}; }
inline Vec operator*(Vec a, Vec b) { return {vmulq_f32(a.v, b.v)}; }
inline Vec operator/(Vec a, Vec b) { return {vdivq_f32(a.v, b.v)}; }
// a * b + c
inline Vec fma(Vec a, Vec b, Vec c) { return {vfmaq_f32(c.v, a.v, b.v)}; }
// The second argument where one is NaN, as elsewhere.
inline Vec max(Vec a, Vec b) { return {vbslq_f32(vcgtq_f32(a.v, b.v), a.v, b.v)}; }
inline Vec min(Vec a, Vec b) { return {vbslq_f32(vcltq_f32(a.v, b.v), a.v, b.v)}; }
inline Vec round(Vec a) { return {vrndnq_f32(a.v)}; }
// The first and the second of each pair.
inline void split_pairs(const bf16* p, Vec* first, Vec* second) {
  const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(reinterpret_cast<const uint16_t*>(p)));
  first->v = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
  second->v = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)));
}
// 2^a for whole a in [-127, 127]; 0 for -127.
inline Vec exp2_whole(Vec a) {
  const int32x4_t biased = vaddq_s32(vcvtnq_s32_f32(a.v), vdupq_n_s32(127));
  return {vreinterpretq_f32_s32(vshlq_n_s32(biased, 23))};
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
