// Groups of weights as float panels [k][16 rows], for products of many rows of x: each weight is
// converted once for all of them, and tiles are those of float32. A tile of few rows converts in
// registers, by the same operations, so a row of x gives the same result beside any others.
#pragma once

#include "runtime_kernels/ops/packed_blocks.h"
#include "runtime_kernels/ops/packed_floats.h"

namespace runtime_kernels::RUNTIME_ISA {

// Rows of x from which a panel pays.
constexpr int64_t kPanelRows = 12;

// Formats of blocks that are multiplied as floats.
constexpr bool blocks_as_floats(PackedFormat format) {
  return kBytesAsFloats && format == PackedFormat::kQ8_0;
}
constexpr bool has_panels(PackedFormat format) {
  return blocks_as_floats(format) ||
         (format == PackedFormat::kBFloat16 && sizeof(FloatTile<bf16>::Element) == sizeof(float));
}
static inline int64_t panel_floats(PackedFormat format, int64_t k, int64_t m) {
  return has_panels(format) && m >= kPanelRows ? k * kGroupRows : 0;
}

// Call f(element, weights) for the four elements of a row that lie together.
template <int kByte = 0, class Quads, class F>
inline void for_bytes(Quads quads, const RowFloats& scale, const RowFloats& shift, int64_t element,
                      F f) {
  RowFloats weights;
  byte_floats(quads, Place<kByte>{}, weights.v);
  for (int i = 0; i < kRowVecs; ++i) weights.v[i] = fma(weights.v[i], scale.v[i], shift.v[i]);
  f(element + kByte, weights);
  if constexpr (kByte < 3) for_bytes<kByte + 1>(quads, scale, shift, element, f);
}

// Call f(element, weights) for all elements of a group of Q8_0 rows; weights are d * (q - 128),
// rounded once.
template <class F>
inline void for_elements(const uint8_t* p, int64_t k, F f) {
  constexpr PackedShape kShape = shape_of(PackedFormat::kQ8_0);
  for (int64_t first = 0; first < k; first += kSubBlock) {
    RowFloats scale, shift;
    Header<PackedFormat::kQ8_0>{p}.scale(0, &scale);
    for (int i = 0; i < kRowVecs; ++i) shift.v[i] = scale.v[i] * Vec::set1(-128.0f);
    p += header_bytes(kShape);
    prefetch_ahead<quant_bytes(kShape)>(p);
    for (int j = 0; j < kQuads; ++j) {
      for_bytes(Bytes::load(p + 64 * j), scale, shift, first + 4 * j, f);
    }
    p += quant_bytes(kShape);
  }
}

template <class T, int N>
inline void byte_tile(const PackedArgs& args, int64_t group, int64_t token) {
  RowFloats sums[N];
  for (int t = 0; t < N; ++t) {
    for (int i = 0; i < kRowVecs; ++i) sums[t].v[i] = zero();
  }
  const int64_t k = args.k;
  const auto* x = static_cast<const float*>(args.values) + token * k;
  const uint8_t* p = args.weight + group * group_bytes(shape_of(PackedFormat::kQ8_0), k);
  for_elements(p, k, [&](int64_t element, const RowFloats& weights) {
    for (int t = 0; t < N; ++t) {
      const Vec value = Vec::set1(x[t * k + element]);
      for (int i = 0; i < kRowVecs; ++i) sums[t].v[i] = fma(weights.v[i], value, sums[t].v[i]);
    }
  });
  for (int t = 0; t < N; ++t) write_rows<T>(args, group, token + t, sums[t]);
}

template <PackedFormat kFormat>
inline void widen_group(const uint8_t* p, int64_t k, float* panel) {
  const auto keep = [panel](int64_t element, const RowFloats& weights) {
    for (int i = 0; i < kRowVecs; ++i) {
      weights.v[i].store(panel + element * kGroupRows + i * Vec::kWidth);
    }
  };
  if constexpr (kFormat == PackedFormat::kQ8_0) {
    for_elements(p, k, keep);
  } else {
    const auto* pairs = reinterpret_cast<const bf16*>(p);
    for (int64_t element = 0; element < k; element += 2) {
      RowFloats first, second;
      for (int i = 0; i < kRowVecs; ++i) {
        split_pairs(pairs + element * kGroupRows + 2 * i * Vec::kWidth, &first.v[i], &second.v[i]);
      }
      keep(element, first);
      keep(element + 1, second);
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
