// Root mean square normalisation, with or without a residual addition before it.
#pragma once

#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

// total = x + residual, rounded to T; returns the sum of its squares.
template <class T>
inline float add_rows(const T* x, const T* residual, T* total, int64_t width) {
  Vec squares = zero();
  for_vectors(width, [&](int64_t i, auto load, auto store) {
    const Vec value = rounded<T>(load(x + i) + load(residual + i));
    store(value, total + i);
    squares = fma(value, value, squares);
  });
  return squares.sum();
}

template <class T>
inline float sum_of_squares(const T* x, int64_t width) {
  Vec squares = zero();
  for_vectors(width, [&](int64_t i, auto load, auto) {
    const Vec value = load(x + i);
    squares = fma(value, value, squares);
  });
  return squares.sum();
}

template <class T>
void norm_rows(const NormArgs& args, int64_t begin, int64_t end) {
  const int64_t width = args.width;
  const T* weight = static_cast<const T*>(args.weight);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * width;
    T* out = static_cast<T*>(args.out) + row * width;
    float squares;
    if (args.residual != nullptr) {
      T* total = static_cast<T*>(args.total) + row * width;
      squares = add_rows(x, static_cast<const T*>(args.residual) + row * width, total, width);
      x = total;
    } else {
      squares = sum_of_squares(x, width);
    }
    const float mean = squares / static_cast<float>(width);
    const Vec scale = Vec::set1(1.0f / __builtin_sqrtf(mean + args.eps));
    for_vectors(width, [&](int64_t i, auto load, auto store) {
      store(load(weight + i) * rounded<T>(load(x + i) * scale), out + i);
    });
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
