// Rotary embedding: element i of a head turns with element i + rotated / 2.
#pragma once

#include <cstring>

#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

template <class T>
void rotary_tokens(const RotaryArgs& args, int64_t begin, int64_t end) {
  const int64_t half = args.rotated / 2, size = args.head_size;
  for (int64_t token = begin; token < end; ++token) {
    const T* cosines = static_cast<const T*>(args.table) + args.positions[token] * args.rotated;
    const T* sines = cosines + half;
    for (int64_t head = 0; head < args.heads; ++head) {
      const T* x = static_cast<const T*>(args.x) + token * args.x_stride + head * size;
      T* out = static_cast<T*>(args.out) + (token * args.heads + head) * size;
      for_vectors(half, [&](int64_t i, auto load, auto store) {
        const Vec first = load(x + i), second = load(x + half + i);
        const Vec cosine = load(cosines + i), sine = load(sines + i);
        store(first * cosine - second * sine, out + i);
        store(fma(second, cosine, first * sine), out + half + i);
      });
      const int64_t rest = size - args.rotated;
      std::memcpy(out + args.rotated, x + args.rotated, static_cast<size_t>(rest) * sizeof(T));
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
