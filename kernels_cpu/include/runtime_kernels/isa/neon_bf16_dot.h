// Dot products of bfloat16 pairs: the BF16 extension of ARMv8.6. Sums are float32.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

template <>
struct Dot<bf16> {
  static constexpr int kStep = 8;
  struct Operand {
    bfloat16x8_t v;
  };
  static inline Operand load(const bf16* p) {
    return {vld1q_bf16(reinterpret_cast<const __bf16*>(p))};
  }
  static inline Operand load_part(const bf16* p, int64_t n) {
    bf16 whole[kStep] = {};
    std::memcpy(whole, p, static_cast<size_t>(n) * sizeof(bf16));
    return load(whole);
  }
  static inline Vec add(Operand a, Operand b, Vec sum) { return {vbfdotq_f32(sum.v, a.v, b.v)}; }
};

// Elements of x beside pairs of weights, a pair of weights in each of a vector's lanes, and a pair
// of x that all lanes are multiplied with.
using PairElement = bf16;
inline void store_elements(Vec x, PairElement* p) { x.store(p); }
struct Pairs {
  bfloat16x8_t v;
  static inline Pairs load(const bf16* p) {
    return {vld1q_bf16(reinterpret_cast<const __bf16*>(p))};
  }
};
struct PairValue {
  bfloat16x8_t v;
  explicit inline PairValue(const PairElement* x) {
    int32_t pair;
    std::memcpy(&pair, x, sizeof pair);
    v = vreinterpretq_bf16_s32(vdupq_n_s32(pair));
  }
  inline Vec add_to(Pairs w, Vec sum) const { return {vbfdotq_f32(sum.v, w.v, v)}; }
};

}  // namespace runtime_kernels::RUNTIME_ISA
