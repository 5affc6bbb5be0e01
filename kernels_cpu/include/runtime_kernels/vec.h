// What every instruction set's Vec gets on top of its own operations: parts, dots, exponentials.
// Included after one of isa/*.h.
#pragma once

#include <cstring>

#include "runtime_kernels/types.h"

namespace runtime_kernels::RUNTIME_ISA {

inline Vec zero() { return Vec::set1(0.0f); }

// The first n elements, then zeros.
template <class T>
inline Vec load_part(const T* p, int64_t n) {
  T whole[Vec::kWidth] = {};
  std::memcpy(whole, p, static_cast<size_t>(n) * sizeof(T));
  return Vec::load(whole);
}

template <class T>
inline void store_part(Vec x, T* p, int64_t n) {
  T whole[Vec::kWidth];
  x.store(whole);
  std::memcpy(p, whole, static_cast<size_t>(n) * sizeof(T));
}

// Call f(offset, load, store) for vectors over n elements, the last of which may be a part:
// load(p) and store(x, p) reach as many elements as there are.
template <class F>
inline void for_vectors(int64_t n, F f) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= n; i += Vec::kWidth) {
    f(i, [](const auto* p) { return Vec::load(p); }, [](Vec x, auto* p) { x.store(p); });
  }
  if (i < n) {
    const int64_t rest = n - i;
    f(
        i, [rest](const auto* p) { return load_part(p, rest); },
        [rest](Vec x, auto* p) { store_part(x, p, rest); });
  }
}

// x as it would be after being stored as a T.
template <class T>
inline Vec rounded(Vec x) {
  T stored[Vec::kWidth];
  x.store(stored);
  return Vec::load(stored);
}
template <>
inline Vec rounded<float>(Vec x) {
  return x;
}

// e^x within 2 units in the last place for |x| <= 87; 0 from -88 down, at most e^88 above; NaN for
// NaN (min and max give their second argument then).
// x = n ln 2 + r, |r| <= ln(2) / 2; e^r by its Taylor polynomial, whose first omitted term is
// below 6e-9; ln 2 in two parts as in Cody & Waite, Software Manual for the Elementary Functions.
inline Vec exp(Vec x) {
  x = min(Vec::set1(88.0f), max(Vec::set1(-88.0f), x));
  const Vec n = round(x * Vec::set1(1.44269504f));
  Vec r = fma(n, Vec::set1(-0.693359375f), x);
  r = fma(n, Vec::set1(2.12194440e-4f), r);
  Vec p = Vec::set1(1.0f / 5040);
  p = fma(p, r, Vec::set1(1.0f / 720));
  p = fma(p, r, Vec::set1(1.0f / 120));
  p = fma(p, r, Vec::set1(1.0f / 24));
  p = fma(p, r, Vec::set1(1.0f / 6));
  p = fma(p, r, Vec::set1(0.5f));
  p = fma(p, r, Vec::set1(1.0f));
  p = fma(p, r, Vec::set1(1.0f));
  return p * exp2_whole(n);
}

// 2^x within 2 units in the last place for -126 <= x <= 127; 0 far below; NaN for NaN.
// x = n + f, |f| <= 1/2; 2^f by the polynomial of degree 6 whose greatest relative error is least,
// 2e-9.
inline Vec exp2(Vec x) {
  const Vec n = round(x), f = x - n;
  Vec p = Vec::set1(0.00015345812f);
  p = fma(p, f, Vec::set1(0.00133999314f));
  p = fma(p, f, Vec::set1(0.00961848896f));
  p = fma(p, f, Vec::set1(0.0555032878f));
  p = fma(p, f, Vec::set1(0.240226469f));
  p = fma(p, f, Vec::set1(0.693147206f));
  p = fma(p, f, Vec::set1(1.0f));
  return times_exp2(p, n);
}

inline Vec tanh(Vec x) {
  const Vec one = Vec::set1(1.0f), two = Vec::set1(2.0f);
  return one - two / (exp(x + x) + one);
}

// A place as an argument, so that what is called with it is found when a template is used.
template <int kPlace>
struct Place {};

// Products of two rows' elements, summed in float32: what linear() is made of.
template <class T>
struct Dot {
  static constexpr int kStep = Vec::kWidth;
  using Operand = Vec;
  static inline Operand load(const T* p) { return Vec::load(p); }
  static inline Operand load_part(const T* p, int64_t n) { return RUNTIME_ISA::load_part(p, n); }
  static inline Vec add(Operand a, Operand b, Vec sum) { return fma(a, b, sum); }
};

}  // namespace runtime_kernels::RUNTIME_ISA
