// A matrix product with packed weights by registers that hold matrices: bfloat16, and int8 with a
// scale for each row of the weight and of x. Sixteen rows' packed weights (packed_layout.h) are
// such a matrix as they lie.
//
// `M` has the registers: sums of four blocks of sixteen rows of x, a block of x, and weights. Each
// sum runs along k in one order whatever the number of rows, so a row of x gives the same result
// beside any others.
#pragma once

#include "runtime_kernels/ops/packed_tile.h"
#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr int kMatrixRows = 16, kMatrixBlocks = 4;
constexpr int64_t kMatrixRowBytes = 64;
constexpr int64_t kMatrixBytes = kMatrixRows * kMatrixRowBytes;

constexpr bool by_matrices(PackedFormat format) {
  return format == PackedFormat::kBFloat16 || format == PackedFormat::kInt8;
}

// Whole numbers of a row of x become floats in their place.
inline void scale_whole_numbers(const PackedArgs& args, const float* row_scales, int64_t token,
                                float* row) {
  const QuantScale* x = args.scales + token * (args.k / kSubBlock);
  for (int i = 0; i < kMatrixRows; ++i) {
    int32_t whole;
    std::memcpy(&whole, row + i, sizeof whole);
    row[i] = static_cast<float>(whole + x->start[0]) * x->scale * row_scales[i];
  }
}

// kBlocks x `rows` rows of x from `token` on, with one group.
template <class M, PackedFormat kFormat, class T, int kBlocks>
inline void matrix_group(const PackedArgs& args, int64_t group, int64_t token, int64_t rows) {
  constexpr bool kWhole = kFormat == PackedFormat::kInt8;
  const int64_t row_bytes = args.k * (kWhole ? 1 : 2);
  const auto* x = static_cast<const uint8_t*>(args.values) + token * row_bytes;
  const uint8_t* p = args.weight + group * group_bytes(shape_of(kFormat), args.k);
  M::template clear<kBlocks>();
  int64_t at = 0;
  for (; at + kMatrixRowBytes <= row_bytes; at += kMatrixRowBytes, p += kMatrixBytes) {
    M::template add<kWhole, false, kBlocks>(p, x + at, row_bytes);
  }
  if (at < row_bytes) {
    M::template add<kWhole, true, kBlocks>(p, x + at, row_bytes);
    p += (row_bytes - at) * kMatrixRows;
  }
  alignas(64) float sums[kBlocks * kMatrixRows * kMatrixRows];
  M::template store<kBlocks>(sums);
  for (int64_t i = 0; i < kBlocks * rows; ++i) {
    float* row = sums + i * kMatrixRows;
    if (kWhole) scale_whole_numbers(args, reinterpret_cast<const float*>(p), token + i, row);
    RowFloats floats;
    for (int v = 0; v < kRowVecs; ++v) floats.v[v] = Vec::load(row + v * Vec::kWidth);
    write_rows<T>(args, group, token + i, floats);
  }
}

template <class M, PackedFormat kFormat, class T>
void matrix_groups(const PackedArgs& args, int64_t begin, int64_t end) {
  const int64_t tail = args.k * (kFormat == PackedFormat::kInt8 ? 1 : 2) % kMatrixRowBytes;
  for (int64_t first = 0; first < args.m;) {
    const int64_t left = args.m - first, rows = left < kMatrixRows ? left : kMatrixRows;
    const bool full = left >= kMatrixBlocks * kMatrixRows;
    M::configure(static_cast<int>(rows), static_cast<int>(tail));
    for (int64_t group = begin; group < end; ++group) {
      if (full) {
        matrix_group<M, kFormat, T, kMatrixBlocks>(args, group, first, rows);
      } else {
        matrix_group<M, kFormat, T, 1>(args, group, first, rows);
      }
    }
    first += full ? kMatrixBlocks * kMatrixRows : rows;
  }
  M::release();
}

template <class M, class T>
void matrix_linear_of(const PackedArgs& args, int64_t begin, int64_t end) {
  if (args.format == PackedFormat::kInt8) {
    matrix_groups<M, PackedFormat::kInt8, T>(args, begin, end);
  } else {
    matrix_groups<M, PackedFormat::kBFloat16, T>(args, begin, end);
  }
}

// packed_linear() with M for the formats that it has.
template <class M>
void matrix_linear(const PackedArgs& args, int64_t begin, int64_t end, float* panel) {
  static_assert(sizeof(FloatTile<bf16>::Element) == 2 && sizeof(Quad) == 4, "x lies otherwise");
  static_assert(!kSignedBytes, "x begins otherwise");
  if (!by_matrices(args.format)) return packed_linear(args, begin, end, panel);
  switch (args.dtype) {
    case DType::kFloat32:
      return matrix_linear_of<M, float>(args, begin, end);
    case DType::kBFloat16:
      return matrix_linear_of<M, bf16>(args, begin, end);
    case DType::kFloat16:
      return matrix_linear_of<M, f16>(args, begin, end);
  }
}

template <class M>
constexpr KernelTable table_with_matrices(const char* name) {
  KernelTable table = table_named(name);
  table.packed_linear = matrix_linear<M>;
  return table;
}

}  // namespace runtime_kernels::RUNTIME_ISA
