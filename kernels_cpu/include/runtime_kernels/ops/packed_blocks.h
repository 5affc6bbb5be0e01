// A matrix product with packed blocks (packed_layout.h): x is quantised to bytes, 32 elements a
// scale, and multiplied in whole numbers; sums over sub-blocks are float32.
//
// A tile is sixteen weight rows and N rows of x, whose float sums stay in registers while a
// sub-block's quants, unpacked once, serve them all. The order of an output's sum depends
// on the format alone, so a row of x gives the same result beside any others.
#pragma once

#include "runtime_kernels/ops/packed_tile.h"
#include "runtime_kernels/ops/quantize_rows.h"
#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr int kQuads = 8;

template <int kBits>
inline void unpack(const uint8_t* quants, Bytes (&out)[kQuads]) {
  if (kBits == 8) {
    for (int j = 0; j < kQuads; ++j) out[j] = Bytes::load(quants + 64 * j);
    return;
  }
  for (int j = 0; j < 4; ++j) {
    const Bytes both = Bytes::load(quants + 64 * j);
    out[j] = both & 15;
    out[j + 4] = both.shifted_right<4>() & 15;
  }
  if (kBits == 5) {
    const Bytes high = Bytes::load(quants + 256);  // Bit j of a byte belongs to quad j.
    out[0] = out[0] | (high.shifted_left<4>() & 16);
    out[1] = out[1] | (high.shifted_left<3>() & 16);
    out[2] = out[2] | (high.shifted_left<2>() & 16);
    out[3] = out[3] | (high.shifted_left<1>() & 16);
    out[4] = out[4] | (high & 16);
    out[5] = out[5] | (high.shifted_right<1>() & 16);
    out[6] = out[6] | (high.shifted_right<2>() & 16);
    out[7] = out[7] | (high.shifted_right<3>() & 16);
  }
  if (kBits == 6) {
    for (int half = 0; half < 2; ++half) {  // Bits 2j and 2j + 1 of a byte belong to its quad j.
      const Bytes high = Bytes::load(quants + 256 + 64 * half);
      Bytes* quad = out + 4 * half;
      quad[0] = quad[0] | (high.shifted_left<4>() & 48);
      quad[1] = quad[1] | (high.shifted_left<2>() & 48);
      quad[2] = quad[2] | (high & 48);
      quad[3] = quad[3] | (high.shifted_right<2>() & 48);
    }
  }
}

// Scales of the sixteen rows for one sub-block, or a half of one, in a chunk with this header.
template <PackedFormat kFormat>
struct Header {
  static constexpr PackedShape kShape = shape_of(kFormat);
  const uint8_t* p;

  inline void scale(int part, RowFloats* out) const {
    load_halves(p, out->v);
    if (kShape.factors == 0) return;
    RowFloats factor;
    const int64_t first = kGroupRows * (kShape.has_minima ? 4 : 2);
    load_bytes(p + first + kGroupRows * part, factor.v);
    for (int i = 0; i < kRowVecs; ++i) {
      // Factors of formats without minima are signed, and stored 128 higher.
      const Vec offset = Vec::set1(kShape.has_minima ? 0.0f : -128.0f);
      out->v[i] = out->v[i] * (factor.v[i] + offset);
    }
  }
  inline void minimum(int part, RowFloats* out) const {
    load_halves(p + 2 * kGroupRows, out->v);
    if (kShape.factors == 0) return;
    RowFloats factor;
    load_bytes(p + kGroupRows * (4 + kShape.factors + part), factor.v);
    for (int i = 0; i < kRowVecs; ++i) out->v[i] = zero() - out->v[i] * factor.v[i];
  }
};

// Add a sub-block's products with T rows of x. `block` is its number in a row of x.
template <PackedFormat kFormat, int T>
inline void add_sub_block(const PackedArgs& args, Header<kFormat> header, int sub,
                          const uint8_t* quants, int64_t token, int64_t block,
                          RowFloats (&sums)[T]) {
  constexpr PackedShape kShape = shape_of(kFormat);
  constexpr int kParts = parts_of(kShape);
  constexpr int kQuadsOfPart = kQuads / kParts;
  prefetch_ahead<quant_bytes(kShape)>(quants);
  Bytes weights[kQuads];
  unpack<kShape.bits>(quants, weights);
  RowFloats scale[kParts], minimum;
  for (int part = 0; part < kParts; ++part) header.scale(sub * kParts + part, &scale[part]);
  if (kShape.has_minima) header.minimum(sub, &minimum);
  const int64_t blocks = args.k / kSubBlock;
  const auto* quads = static_cast<const Quad*>(args.values);
  const QuantScale* x[T];
  for (int t = 0; t < T; ++t) x[t] = args.scales + (token + t) * blocks + block;
  for (int part = 0; part < kParts; ++part) {
    const Quad* row[T];
    Sums whole[T];
    for (int t = 0; t < T; ++t) {
      row[t] = quads + ((token + t) * blocks + block) * kQuads + part * kQuadsOfPart;
      whole[t] = Sums::set1(x[t]->start[part]);
    }
    dot_quads<kShape.bits, kQuadsOfPart, T>(whole, weights + part * kQuadsOfPart, row);
    for (int t = 0; t < T; ++t) {
      const Vec x_scale = Vec::set1(x[t]->scale);
      Vec floats[kRowVecs];
      whole[t].floats(floats);
      for (int i = 0; i < kRowVecs; ++i) {
        sums[t].v[i] = fma(floats[i] * x_scale, scale[part].v[i], sums[t].v[i]);
      }
    }
  }
  if (!kShape.has_minima) return;
  for (int t = 0; t < T; ++t) {
    const Vec x_sum = Vec::set1(x[t]->sum);
    for (int i = 0; i < kRowVecs; ++i) {
      sums[t].v[i] = fma(x_sum, minimum.v[i], sums[t].v[i]);
    }
  }
}

template <PackedFormat kFormat, class T, int N>
inline void block_tile(const PackedArgs& args, int64_t group, int64_t token) {
  constexpr PackedShape kShape = shape_of(kFormat);
  RowFloats sums[N];
  for (int t = 0; t < N; ++t) {
    for (int i = 0; i < kRowVecs; ++i) sums[t].v[i] = zero();
  }
  const uint8_t* p = args.weight + group * group_bytes(kShape, args.k);
  const int64_t blocks = args.k / kSubBlock;
  for (int64_t block = 0; block < blocks;) {
    const Header<kFormat> header{p};
    p += header_bytes(kShape);
    for (int sub = 0; sub < kShape.sub_blocks; ++sub, ++block, p += quant_bytes(kShape)) {
      add_sub_block<kFormat, N>(args, header, sub, p, token, block, sums);
    }
  }
  for (int t = 0; t < N; ++t) write_rows<T>(args, group, token + t, sums[t]);
}

// int8: one scale for a weight row and one for a row of x, so whole numbers are added to the end.
template <class T, int N>
inline void int8_tile(const PackedArgs& args, int64_t group, int64_t token) {
  constexpr PackedShape kShape = shape_of(PackedFormat::kInt8);
  const uint8_t* p = args.weight + group * group_bytes(kShape, args.k);
  const int64_t blocks = args.k / kSubBlock, quads = blocks * kQuads;
  const auto* x = static_cast<const Quad*>(args.values) + token * quads;
  Sums whole[N];
  for (int t = 0; t < N; ++t) {
    whole[t] = Sums::set1(args.scales[(token + t) * blocks].start[0]);
  }
  for (int64_t j = 0; j < quads; j += kQuads, p += quant_bytes(kShape)) {
    prefetch_ahead<quant_bytes(kShape)>(p);
    Bytes weights[kQuads];
    unpack<kShape.bits>(p, weights);
    const Quad* row[N];
    for (int t = 0; t < N; ++t) row[t] = x + t * quads + j;
    dot_quads<kShape.bits, kQuads, N>(whole, weights, row);
  }
  const auto* scale = reinterpret_cast<const float*>(p);
  for (int t = 0; t < N; ++t) {
    RowFloats sums;
    whole[t].floats(sums.v);
    const Vec x_scale = Vec::set1(args.scales[(token + t) * blocks].scale);
    for (int i = 0; i < kRowVecs; ++i) {
      sums.v[i] = sums.v[i] * x_scale * Vec::load(scale + i * Vec::kWidth);
    }
    write_rows<T>(args, group, token + t, sums);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
