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
  return most.highest() + poison.sum();
}

// What the products of a format's quants have too much, times the sum of x.
constexpr int offset_of(PackedShape shape) {
  return shape.has_minima || (shape.bits == 8 && kSignedBytes) ? 0 : shape.offset;
}
// Parts of a sub-block that have factors of their own.
constexpr int parts_of(PackedShape shape) { return shape.factors > shape.sub_blocks ? 2 : 1; }

// n elements to quads, elements past them zeros, and to the sums of the block's halves.
template <class T>
inline void quantize_block(const T* x, int64_t n, float scale, Quad* quads, float (&half)[2]) {
  const Vec inverse = Vec::set1(scale > 0 ? 1.0f / scale : 0.0f);
  int8_t whole[kSubBlock] = {};
  Vec sums[2] = {zero(), zero()};
  for_vectors(n, [&](int64_t i, auto load, auto) {
    const Vec value = round(load(x + i) * inverse);
    // The bounds hold for whatever was not a number, too.
    const Vec bounded = min(max(value, Vec::set1(-127.0f)), Vec::set1(127.0f));
    bounded.store(whole + i);
    sums[i / 16] = sums[i / 16] + bounded;
  });
  for (int j = 0; j < 8; ++j) quads[j] = Quad::pack(whole + 4 * j);
  for (int i = 0; i < 2; ++i) half[i] = sums[i].sum();
}

// A row's blocks, filled up with zeros.
template <class T>
inline void quantize_row(const T* x, int64_t width, PackedShape shape, Quad* quads,
                         QuantScale* scales) {
  const int64_t blocks = (width + kSubBlock - 1) / kSubBlock;
  const bool by_row = shape.sub_blocks == 0;
  const int32_t offset = offset_of(shape);
  const float whole_row = by_row ? most_of(x, width) / 127.0f : 0.0f;
  int32_t total = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t first = block * kSubBlock, left = width - first;
    const int64_t n = left < kSubBlock ? left : kSubBlock;
    const float scale = by_row ? whole_row : most_of(x + first, n) / 127.0f;
    float half[2];
    quantize_block(x + first, n, scale, quads + block * 8, half);
    const auto low = static_cast<int32_t>(half[0]), high = static_cast<int32_t>(half[1]);
    total += low + high;
    const int32_t start = parts_of(shape) == 2 ? low : low + high;
    scales[block] = {scale, scale * (half[0] + half[1]), {-offset * start, -offset * high}};
  }
  if (by_row) scales->start[0] = -offset * total;
}

}  // namespace runtime_kernels::RUNTIME_ISA
