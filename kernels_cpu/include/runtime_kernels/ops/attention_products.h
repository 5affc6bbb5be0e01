// The two matrix products of prefill attention over a tile of keys, and how the tile lies for them:
// as floats, or as pairs of bfloat16 where queries and cache are bfloat16 and the instruction set
// multiplies those. Pairs of queries and keys are multiplied as they are; weights are rounded to
// bfloat16 before they meet the values, their sum is of the unrounded ones.
#pragma once

#include <type_traits>

#include "runtime_kernels/ops/attention_parts.h"

namespace runtime_kernels::RUNTIME_ISA {

// Elements one by one.
struct Singles {
  using Element = float;
  using Right = Vec;
  static constexpr int kTogether = 1;
  static inline Right load(const Element* p) { return Vec::load(p); }
  static inline Vec add(const Element* left, Right right, Vec sum) {
    return fma(Vec::set1(*left), right, sum);
  }
  static inline void store(Vec x, Element* p) { x.store(p); }
};

// Two by two along the sum.
struct InPairs {
  using Element = bf16;
  using Right = Pairs;
  static constexpr int kTogether = 2;
  static inline Right load(const Element* p) { return Pairs::load(p); }
  static inline Vec add(const Element* left, Right right, Vec sum) {
    // The same type wherever this is used.
    return PairValue(reinterpret_cast<const PairElement*>(left)).add_to(right, sum);
  }
  static inline void store(Vec x, Element* p) {
    store_elements(x, reinterpret_cast<PairElement*>(p));
  }
};

// Only vectors of sixteen: the others' pairs have been tried in products of weights alone.
template <class T, class C>
using UnitsOf = std::conditional_t<std::is_same_v<T, bf16> && std::is_same_v<C, bf16> &&
                                       std::is_same_v<PairElement, bf16> && Vec::kWidth == 16,
                                   InPairs, Singles>;

// R rows and V vectors of c = (Add ? c : 0) + a b; `units` of the sum.
template <class U, bool Add, int R, int V>
inline void product_block(const typename U::Element* a, int64_t lda, const typename U::Element* b,
                          int64_t ldb, float* c, int64_t ldc, int64_t units) {
  Vec sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = Add ? Vec::load(c + r * ldc + v * Vec::kWidth) : zero();
    }
  }
  for (int64_t i = 0; i < units; ++i) {
    typename U::Right right[V];
    for (int v = 0; v < V; ++v) right[v] = U::load(b + U::kTogether * (i * ldb + v * Vec::kWidth));
    for (int r = 0; r < R; ++r) {
      for (int v = 0; v < V; ++v) {
        sums[r][v] = U::add(a + r * lda + U::kTogether * i, right[v], sums[r][v]);
      }
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v].store(c + r * ldc + v * Vec::kWidth);
  }
}

template <class U, bool Add, int V>
inline void product_columns(const typename U::Element* a, int64_t lda, const typename U::Element* b,
                            int64_t ldb, float* c, int64_t ldc, int64_t m, int64_t units) {
  int64_t row = 0;
  for (; row + kBlockRows <= m; row += kBlockRows) {
    product_block<U, Add, kBlockRows, V>(a + row * lda, lda, b, ldb, c + row * ldc, ldc, units);
  }
  for (; row < m; ++row) {
    product_block<U, Add, 1, V>(a + row * lda, lda, b, ldb, c + row * ldc, ldc, units);
  }
}

// c [m, n] = (Add ? c : 0) + a [m, units] b [units, n], n a multiple of a vector.
template <class U, bool Add>
inline void product(const typename U::Element* a, int64_t lda, const typename U::Element* b,
                    int64_t ldb, float* c, int64_t ldc, int64_t m, int64_t n, int64_t units) {
  constexpr int64_t kWide = kBlockVectors * Vec::kWidth;
  int64_t column = 0;
  for (; column + kWide <= n; column += kWide) {
    product_columns<U, Add, kBlockVectors>(a, lda, b + U::kTogether * column, ldb, c + column, ldc,
                                           m, units);
  }
  for (; column < n; column += Vec::kWidth) {
    product_columns<U, Add, 1>(a, lda, b + U::kTogether * column, ldb, c + column, ldc, m, units);
  }
}

// A vector of units of a key from element `first` on, zeros past its end.
template <class U, class C>
inline Vec load_units(const C* key, int64_t first, int64_t size, Vec scale) {
  constexpr int64_t kElements = U::kTogether * Vec::kWidth;
  const int64_t left = size - first;
  if constexpr (U::kTogether == 1) {
    return scale * (left >= kElements ? Vec::load(key + first) : load_part(key + first, left));
  } else {
    // Pairs are carried as the bits of floats.
    if (left >= kElements) return Vec::load(reinterpret_cast<const float*>(key + first));
    float bits[Vec::kWidth] = {};
    std::memcpy(bits, key + first, static_cast<size_t>(left) * sizeof(C));
    return Vec::load(bits);
  }
}

// Keys as [units of a head][kTile], zeros past the count up to `width`, whole vectors of keys.
template <class U, class C>
inline void copy_keys(const C* const* keys, int64_t count, int64_t width, int64_t size,
                      int64_t padded, float* out) {
  for (int64_t key = 0; key < width; key += Vec::kWidth) {
    const int64_t left = count - key;
    for (int64_t first = 0; first < padded; first += U::kTogether * Vec::kWidth) {
      Vec rows[Vec::kWidth];
      for (int i = 0; i < Vec::kWidth; ++i) {
        rows[i] = zero();
        if (i < left && first < size) {
          const C* from = keys[key + i];
          rows[i] = load_units<U>(from, first, size, Vec::set1(scale_of(from, size)));
        }
      }
      transpose(rows);
      const int64_t unit = first / U::kTogether, units = padded / U::kTogether - unit;
      for (int j = 0; j < Vec::kWidth && j < units; ++j) {
        rows[j].store(out + (unit + j) * kTile + key);
      }
    }
  }
}

// Values as [units of keys][padded], a last unit filled up with zeros.
template <class U, class C>
inline void copy_values(const C* const* values, int64_t count, int64_t size, int64_t padded,
                        float* out) {
  if constexpr (U::kTogether == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const Vec scale = Vec::set1(scale_of(values[i], size));
      float* value = out + i * padded;
      for (int64_t d = size / Vec::kWidth * Vec::kWidth; d < padded; ++d) value[d] = 0.0f;
      for_vectors(size, [&](int64_t d, auto load, auto store) {
        store(load(values[i] + d) * scale, value + d);
      });
    }
  } else {
    auto* pairs = reinterpret_cast<uint32_t*>(out);
    for (int64_t i = 0; i < count; i += 2, pairs += padded) {
      const bf16* first = values[i];
      const bf16* second = values[i + 1 < count ? i + 1 : i];
      const uint32_t keep = i + 1 < count ? 0xffff0000u : 0u;
      for (int64_t d = 0; d < size; ++d) {
        pairs[d] = first[d].bits | (static_cast<uint32_t>(second[d].bits) << 16 & keep);
      }
      for (int64_t d = size; d < padded; ++d) pairs[d] = 0;
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
