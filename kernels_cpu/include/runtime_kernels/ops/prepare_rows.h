// Rows of x as packed_linear() takes them: quads of bytes, pairs of bfloat16, or floats.
#pragma once

#include <cstring>

#include "runtime_kernels/ops/packed_floats.h"
#include "runtime_kernels/ops/packed_panels.h"
#include "runtime_kernels/ops/quantize_rows.h"
#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

// Elements of x beside weights of that format.
static inline int64_t prepared_element_bytes(PackedFormat format) {
  return format == PackedFormat::kBFloat16 ? sizeof(FloatTile<bf16>::Element) : 4;
}

static inline bool is_prepared_as_floats(PackedFormat format) {
  return is_float(shape_of(format)) || blocks_as_floats(format);
}

static inline int64_t prepared_bytes(PackedFormat format, int64_t k) {
  if (is_prepared_as_floats(format)) return k * prepared_element_bytes(format);
  return k / 4 * static_cast<int64_t>(sizeof(Quad));
}

template <class T, class Element>
inline void convert_row(const T* x, int64_t width, int64_t padded, Element* out) {
  for_vectors(width, [&](int64_t i, auto load, auto store) { store(load(x + i), out + i); });
  std::memset(out + width, 0, static_cast<size_t>(padded - width) * sizeof(Element));
}

template <class T>
void prepare_rows(const PrepareArgs& args, int64_t begin, int64_t end) {
  const PackedShape shape = shape_of(args.format);
  const int64_t padded = padded_width(shape, args.width), blocks = padded / kSubBlock;
  const int64_t bytes = prepared_bytes(args.format, padded);
  for (int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(args.x) + row * args.width;
    void* values = static_cast<char*>(args.values) + row * bytes;
    if (!is_prepared_as_floats(args.format)) {
      quantize_row(x, args.width, shape, static_cast<Quad*>(values), args.scales + row * blocks);
    } else if (args.format == PackedFormat::kBFloat16) {
      convert_row(x, args.width, padded, static_cast<FloatTile<bf16>::Element*>(values));
    } else {
      convert_row(x, args.width, padded, static_cast<float*>(values));
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
