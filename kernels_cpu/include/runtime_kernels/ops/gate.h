// The gate of a SwiGLU layer: silu(gate) * up.
#pragma once

#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

template <class T>
void gate_rows(const GateArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.width;
  const Vec one = Vec::set1(1.0f);
  for (int64_t row = begin; row < end; ++row) {
    const T* gate = static_cast<const T*>(args.x) + 2 * row * width;
    const T* up = gate + width;
    T* out = static_cast<T*>(args.out) + row * width;
    for_vectors(width, [&](int64_t i, auto load, auto store) {
      const Vec x = load(gate + i);
      // exp() is bounded, so a very negative x would not vanish against it.
      const Vec silu = max(Vec::set1(-88.0f), x) / (one + exp(zero() - x));
      store(rounded<T>(silu) * load(up + i), out + i);
    });
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
