// The gates of SwiGLU and GeGLU layers: act(gate) * up.
#pragma once

#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

// x / (1 + exp(-t)). exp() is bounded, so a very negative x would not vanish against it.
inline Vec gated(Vec x, Vec t) {
  return max(Vec::set1(-88.0f), x) / (Vec::set1(1.0f) + exp(zero() - t));
}

inline Vec activated(Vec x, Activation activation) {
  if (activation == Activation::kSilu) return gated(x, x);
  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2 u)), u = sqrt(2 / pi) * (x + 0.044715 x^3).
  const Vec cubic = fma(x * x, Vec::set1(0.07135481627159f), Vec::set1(1.5957691216057f));
  return gated(x, x * cubic);
}

template <class T>
void gate_rows(const GateArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.width;
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(args.x) + 2 * row * width;
    const T* up = gate + width;
    T* out = static_cast<T*>(args.out) + row * width;
    for_vectors(width, [&](int64_t i, auto load, auto store) {
      const Vec act = activated(load(gate + i), args.activation);
      store(rounded<T>(act) * load(up + i), out + i);
    });
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
