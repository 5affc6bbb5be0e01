// Sixty-four bytes, and their products with quads: NEON, with the dot product's and the matrix
// product's instructions where compiled so.
#pragma once

#include <arm_neon.h>

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr bool kBytesAsFloats = false;

// Sixteen rows of four unsigned bytes; a row's bytes lie together.
struct Bytes {
  uint8x16_t v[4];

  template <class F>
  static inline Bytes make(F f) {
    return {{f(0), f(1), f(2), f(3)}};
  }
  static inline Bytes load(const uint8_t* p) {
    return make([&](int i) { return vld1q_u8(p + 16 * i); });
  }
  template <int kShift>
  inline Bytes shifted_right() const {
    return make([&](int i) { return vshrq_n_u8(v[i], kShift); });
  }
  template <int kShift>
  inline Bytes shifted_left() const {
    return make([&](int i) { return vshlq_n_u8(v[i], kShift); });
  }
};
inline Bytes operator|(Bytes a, Bytes b) {
  return Bytes::make([&](int i) { return vorrq_u8(a.v[i], b.v[i]); });
}
inline Bytes operator&(Bytes a, uint8_t mask) {
  return Bytes::make([&](int i) { return vandq_u8(a.v[i], vdupq_n_u8(mask)); });
}

// A whole number for each of the sixteen rows.
struct Sums {
  int32x4_t v[4];

  static inline Sums set1(int32_t x) {
    const int32x4_t all = vdupq_n_s32(x);
    return {{all, all, all, all}};
  }
  inline void floats(Vec (&out)[4]) const {
    for (int i = 0; i < 4; ++i) out[i].v = vcvtq_f32_s32(v[i]);
  }
};

inline void load_halves(const uint8_t* p, Vec (&out)[4]) {
  for (int i = 0; i < 4; ++i) out[i] = Vec::load(reinterpret_cast<const f16*>(p) + 4 * i);
}
inline void load_bytes(const uint8_t* p, Vec (&out)[4]) {
  const uint8x16_t bytes = vld1q_u8(p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
  out[0].v = vcvtq_f32_u32(vmovl_u16(vget_low_u16(low)));
  out[1].v = vcvtq_f32_u32(vmovl_u16(vget_high_u16(low)));
  out[2].v = vcvtq_f32_u32(vmovl_u16(vget_low_u16(high)));
  out[3].v = vcvtq_f32_u32(vmovl_u16(vget_high_u16(high)));
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

// Weights are taken as signed ones: those of eight bits need no offset, the others are below 64.
constexpr bool kSignedBytes = true;

template <int kBits>
inline int8x16_t as_signed(uint8x16_t w) {
  return vreinterpretq_s8_u8(kBits == 8 ? veorq_u8(w, vdupq_n_u8(128)) : w);
}

// Add the products of four rows' quads with one of x.
inline int32x4_t add_quad(int32x4_t sums, int8x16_t w, Quad x) {
  const int8x16_t four = vreinterpretq_s8_s32(vdupq_n_s32(x.bytes));
#if defined(__ARM_FEATURE_DOTPROD)
  return vdotq_s32(sums, w, four);
#else
  const int16x8_t low = vmull_s8(vget_low_s8(w), vget_low_s8(four));
  // Two products are at most 2 * 128 * 127 in magnitude, which a word holds.
  return vpadalq_s16(sums, vpaddq_s16(low, vmull_high_s8(w, four)));
#endif
}

#if defined(__ARM_FEATURE_MATMUL_INT8)

// Add the products of kCount quads, two at a time, with those of two rows of x: a matrix
// instruction multiplies two rows' eight bytes with two rows of x.
template <int kBits, int kCount>
inline void add_two_rows(Sums* sums, const Bytes* w, const Quad* const* x) {
  for (int i = 0; i < 4; ++i) {
    // Rows 0 and 1, and 2 and 3, of these four, each by both rows of x.
    int32x4_t first = vzip1q_s32(sums[0].v[i], sums[1].v[i]);
    int32x4_t second = vzip2q_s32(sums[0].v[i], sums[1].v[i]);
    for (int j = 0; j < kCount; j += 2) {
      const int8x16_t both = vcombine_s8(vld1_s8(reinterpret_cast<const int8_t*>(x[0] + j)),
                                         vld1_s8(reinterpret_cast<const int8_t*>(x[1] + j)));
      const int32x4_t even = vreinterpretq_s32_s8(as_signed<kBits>(w[j].v[i]));
      const int32x4_t odd = vreinterpretq_s32_s8(as_signed<kBits>(w[j + 1].v[i]));
      first = vmmlaq_s32(first, vreinterpretq_s8_s32(vzip1q_s32(even, odd)), both);
      second = vmmlaq_s32(second, vreinterpretq_s8_s32(vzip2q_s32(even, odd)), both);
    }
    sums[0].v[i] = vuzp1q_s32(first, second);
    sums[1].v[i] = vuzp2q_s32(first, second);
  }
}

#endif

// Add the products of kCount quads of weights of kBits with those of P rows of x.
template <int kBits, int kCount, int P>
inline void dot_quads(Sums (&sums)[P], const Bytes* w, const Quad* const (&x)[P]) {
  int p = 0;
#if defined(__ARM_FEATURE_MATMUL_INT8)
  for (; p + 2 <= P; p += 2) add_two_rows<kBits, kCount>(sums + p, w, x + p);
#endif
  for (; p < P; ++p) {
    for (int j = 0; j < kCount; ++j) {
      for (int i = 0; i < 4; ++i) {
        sums[p].v[i] = add_quad(sums[p].v[i], as_signed<kBits>(w[j].v[i]), x[p][j]);
      }
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
