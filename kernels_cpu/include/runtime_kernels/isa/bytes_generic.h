// Sixty-four bytes, and their products with broadcast quads, in plain C++.
#pragma once

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr bool kBytesAsFloats = false;

// Sixteen rows of four unsigned bytes; a row's bytes lie together.
struct Bytes {
  uint8_t v[64];

  template <class F>
  static inline Bytes make(F f) {
    Bytes out;
    for (int i = 0; i < 64; ++i) out.v[i] = static_cast<uint8_t>(f(i));
    return out;
  }
  static inline Bytes load(const uint8_t* p) {
    return make([&](int i) { return p[i]; });
  }
  template <int kShift>
  inline Bytes shifted_right() const {
    return make([&](int i) { return v[i] >> kShift; });
  }
  template <int kShift>
  inline Bytes shifted_left() const {
    return make([&](int i) { return v[i] << kShift; });
  }
};
inline Bytes operator|(Bytes a, Bytes b) {
  return Bytes::make([&](int i) { return a.v[i] | b.v[i]; });
}
inline Bytes operator&(Bytes a, uint8_t mask) {
  return Bytes::make([&](int i) { return a.v[i] & mask; });
}

constexpr int kVecsOfRows = 16 / Vec::kWidth;

// A whole number for each of the sixteen rows.
struct Sums {
  int32_t v[16];

  static inline Sums set1(int32_t x) {
    Sums out;
    for (int i = 0; i < 16; ++i) out.v[i] = x;
    return out;
  }
  inline void floats(Vec (&out)[kVecsOfRows]) const {
    float values[16];
    for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(v[i]);
    for (int i = 0; i < kVecsOfRows; ++i) out[i] = Vec::load(values + i * Vec::kWidth);
  }
};

inline void load_halves(const uint8_t* p, Vec (&out)[kVecsOfRows]) {
  const auto* halves = reinterpret_cast<const f16*>(p);
  for (int i = 0; i < kVecsOfRows; ++i) out[i] = Vec::load(halves + i * Vec::kWidth);
}
inline void load_bytes(const uint8_t* p, Vec (&out)[kVecsOfRows]) {
  float values[16];
  for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(p[i]);
  for (int i = 0; i < kVecsOfRows; ++i) out[i] = Vec::load(values + i * Vec::kWidth);
}

// Four signed bytes of x, which all rows are multiplied with.
struct Quad {
  int8_t bytes[4];
  static inline Quad pack(const int8_t* x) {
    Quad quad;
    std::memcpy(quad.bytes, x, 4);
    return quad;
  }
};
inline Sums dot(Sums sums, Bytes w, const Quad* x) {
  for (int i = 0; i < 16; ++i) {
    for (int j = 0; j < 4; ++j) sums.v[i] += int32_t{w.v[4 * i + j]} * x->bytes[j];
  }
  return sums;
}

}  // namespace runtime_kernels::RUNTIME_ISA

#include "runtime_kernels/isa/quads_single.h"
