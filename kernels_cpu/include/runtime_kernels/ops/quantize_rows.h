// Rows of x in whole numbers from -127 to 127: a scale for each 32 elements, or one for the row.
#pragma once

#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

// The greatest magnitude; NaN where an element is NaN or infinite, so that the results are too.
template <class T>
inline float most_of(const T* x, int64_t n) {
  Vec most = zero(), poison = zero();
  for_vectors(n, [&](int64_t i, auto load, auto) {
    const Vec value = load(x + i);
    most = max(most, max(value, zero() - value));
    poison = fma(value, zero(), poison);
  });
  return highest(most) + poison.sum();
}

// Elements past n are zeros.
template <class T>
inline void quantize_block(const T* x, int64_t n, float scale, Quad* quads, QuantScale* out) {
  const float inverse = scale > 0 ? 1.0f / scale : 0.0f;
  float values[kSubBlock] = {};
  for_vectors(n, [&](int64_t i, auto load, auto) {
    const Vec value = round(load(x + i) * Vec::set1(inverse));
    // The bounds hold for whatever was not a number, too.
    min(max(value, Vec::set1(-127.0f)), Vec::set1(127.0f)).store(values + i);
  });
  int8_t whole[kSubBlock];
  int32_t half[2] = {0, 0};
  for (int i = 0; i < kSubBlock; ++i) whole[i] = static_cast<int8_t>(values[i]);
  for (int i = 0; i < 16; ++i) half[0] += whole[i];
  for (int i = 16; i < 32; ++i) half[1] += whole[i];
  for (int j = 0; j < 8; ++j) quads[j] = Quad::pack(whole + 4 * j);
  *out = {scale, scale * static_cast<float>(half[0] + half[1]), {half[0], half[1]}};
}

// A row's blocks, filled up with zeros.
template <class T>
inline void quantize_row(const T* x, int64_t width, bool by_row, Quad* quads, QuantScale* scales) {
  const int64_t blocks = (width + kSubBlock - 1) / kSubBlock;
  const float whole_row = by_row ? most_of(x, width) / 127.0f : 0.0f;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * kSubBlock, left = width - first;
    const int64_t n = left < kSubBlock ? left : kSubBlock;
    const float scale = by_row ? whole_row : most_of(x + first, n) / 127.0f;
    quantize_block(x + first, n, scale, quads + block * 8, scales + block);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
