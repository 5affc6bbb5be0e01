// A matrix product with packed floats: products and sums in float32.
//
// A tile is sixteen weight rows and N rows of x, whose sums stay in registers; each step multiplies
// the rows' next elements with each x's, broadcast. An output's sum runs along k in one order.
#pragma once

#include "runtime_kernels/ops/packed_tile.h"
#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

// How weights of type W are multiplied: kStep elements of a row at once.
template <class W>
struct FloatTile {
  using Element = float;  // Of x.
  static constexpr int kStep = 1;
  struct Weights {
    RowFloats rows;
  };
  static inline Weights load(const uint8_t* p) {
    Weights out;
    for (int i = 0; i < kRowVecs; ++i) {
      out.rows.v[i] = Vec::load(reinterpret_cast<const W*>(p) + i * Vec::kWidth);
    }
    return out;
  }
  static inline void add(const Weights& w, const Element* x, RowFloats& sums) {
    const Vec value = Vec::set1(*x);
    for (int i = 0; i < kRowVecs; ++i) sums.v[i] = fma(w.rows.v[i], value, sums.v[i]);
  }
};

// bfloat16 lies in pairs; see pairs() of isa/*.h.
template <>
struct FloatTile<bf16> {
  using Element = PairElement;
  static constexpr int kStep = 2;
  struct Weights {
    Pairs v[kRowVecs];
  };
  static inline Weights load(const uint8_t* p) {
    Weights out;
    for (int i = 0; i < kRowVecs; ++i) {
      out.v[i] = Pairs::load(reinterpret_cast<const bf16*>(p) + 2 * i * Vec::kWidth);
    }
    return out;
  }
  static inline void add(const Weights& w, const Element* x, RowFloats& sums) {
    const PairValue value(x);
    for (int i = 0; i < kRowVecs; ++i) sums.v[i] = value.add_to(w.v[i], sums.v[i]);
  }
};

// `p`: the group's weights.
template <class W, class T, int N>
inline void float_tile(const PackedArgs& args, int64_t group, int64_t token, const uint8_t* p) {
  using Tile = FloatTile<W>;
  constexpr int64_t kStepBytes = Tile::kStep * kGroupRows * sizeof(W);
  RowFloats sums[N];
  for (int t = 0; t < N; ++t) {
    for (int i = 0; i < kRowVecs; ++i) sums[t].v[i] = zero();
  }
  const int64_t k = args.k;
  const auto* x = static_cast<const typename Tile::Element*>(args.values) + token * k;
  for (int64_t i = 0; i < k; i += Tile::kStep, p += kStepBytes) {
    prefetch_ahead<kStepBytes>(p);
    const typename Tile::Weights weights = Tile::load(p);
    for (int t = 0; t < N; ++t) Tile::add(weights, x + t * k + i, sums[t]);
  }
  for (int t = 0; t < N; ++t) write_rows<T>(args, group, token + t, sums[t]);
}

}  // namespace runtime_kernels::RUNTIME_ISA
