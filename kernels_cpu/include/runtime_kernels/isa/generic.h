// Vectors of eight floats in plain C++, for the compiler to vectorise as the target allows.
#pragma once

#include <cmath>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float to_float(float x) { return x; }
inline float to_float(int8_t x) { return x; }
inline float to_float(bf16 x) { return from_bits(uint32_t{x.bits} << 16); }
inline float to_float(f16 x) {
  const uint32_t sign = (x.bits & 0x8000u) << 16, exponent = (x.bits >> 10) & 31u;
  const uint32_t fraction = x.bits & 0x3ffu;
  if (exponent == 0) {  // Zero or subnormal: a multiple of 2^-24.
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  if (exponent == 31) return from_bits(sign | 0x7f800000u | (fraction << 13));
  return from_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

// Round to nearest, ties to even.
inline void from_float(float x, float* out) { *out = x; }
// Whole numbers within a byte.
inline void from_float(float x, int8_t* out) { *out = static_cast<int8_t>(x); }
inline void from_float(float x, bf16* out) {
  const uint32_t bits = to_bits(x);
  if (x != x) {
    out->bits = 0x7fc0;
  } else {
    out->bits = static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
}
inline void from_float(float x, f16* out) {
  const uint32_t bits = to_bits(x), sign = (bits >> 16) & 0x8000u, magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {
    half = 0x7e00;
  } else if (magnitude >= 0x477ff000u) {  // 65520 and above.
    half = 0x7c00;
  } else if (magnitude < 0x38800000u) {  // Below 2^-14: subnormal.
    half = static_cast<uint32_t>(std::nearbyintf(from_bits(magnitude) * 0x1p24f));
  } else {
    half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  out->bits = static_cast<uint16_t>(sign | half);
}

struct Vec {
  static constexpr int kWidth = 8;
  static constexpr int kRegisters = 16;

  float v[kWidth];

  template <class F>
  static inline Vec make(F f) {
    Vec out;
    for (int i = 0; i < kWidth; ++i) out.v[i] = f(i);
    return out;
  }
  static inline Vec set1(float x) {
    return make([&](int) { return x; });
  }
  template <class T>
  static inline Vec load(const T* p) {
    return make([&](int i) { return to_float(p[i]); });
  }
  template <class T>
  inline void store(T* p) const {
    for (int i = 0; i < kWidth; ++i) from_float(v[i], p + i);
  }
  inline float sum() const {
    return ((v[0] + v[4]) + (v[2] + v[6])) + ((v[1] + v[5]) + (v[3] + v[7]));
  }
  // For numbers.
  inline float highest() const {
    float most = v[0];
    for (int i = 1; i < kWidth; ++i) most = v[i] > most ? v[i] : most;
    return most;
  }
};

inline Vec operator+(Vec a, Vec b) {
  return Vec::make([&](int i) { return a.v[i] + b.v[i]; });
}
inline Vec operator-(Vec a, Vec b) {
  return Vec::make([&](int i) { return a.v[i] - b.v[i]; });
}
inline Vec operator*(Vec a, Vec b) {
  return Vec::make([&](int i) { return a.v[i] * b.v[i]; });
}
inline Vec operator/(Vec a, Vec b) {
  return Vec::make([&](int i) { return a.v[i] / b.v[i]; });
}
// a * b + c
inline Vec fma(Vec a, Vec b, Vec c) {
  return Vec::make([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline Vec max(Vec a, Vec b) {
  return Vec::make([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec min(Vec a, Vec b) {
  return Vec::make([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Vec round(Vec a) {
  // Adding 1.5 * 2^23 leaves no room for a fraction; for |a| < 2^22.
  return Vec::make([&](int i) { return (a.v[i] + 12582912.0f) - 12582912.0f; });
}
// The first and the second of each pair.
inline void split_pairs(const bf16* p, Vec* first, Vec* second) {
  *first = Vec::make([&](int i) { return to_float(p[2 * i]); });
  *second = Vec::make([&](int i) { return to_float(p[2 * i + 1]); });
}
// 2^a for whole a in [-127, 127]; 0 for -127.
inline Vec exp2_whole(Vec a) {
  return Vec::make([&](int i) {
    const int whole = a.v[i] == a.v[i] ? static_cast<int>(a.v[i]) : 0;
    return from_bits(static_cast<uint32_t>(whole + 127) << 23);
  });
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
