// Pairs of bfloat16 for instruction sets that do not multiply them: each half becomes a float.
#pragma once

#include "runtime_kernels/types.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

// Elements of x beside pairs of weights.
using PairElement = float;
inline void store_elements(Vec x, PairElement* p) { x.store(p); }
// A pair of weights in each of a vector's lanes.
struct Pairs {
  Vec first, second;
  static inline Pairs load(const bf16* p) {
    Pairs out;
    split_pairs(p, &out.first, &out.second);
    return out;
  }
};
// A pair of x that all lanes are multiplied with.
struct PairValue {
  Vec first, second;
  explicit inline PairValue(const PairElement* x)
      : first(Vec::set1(x[0])), second(Vec::set1(x[1])) {}
  inline Vec add_to(Pairs w, Vec sum) const {
    return fma(w.second, second, fma(w.first, first, sum));
  }
};

}  // namespace runtime_kernels::RUNTIME_ISA
