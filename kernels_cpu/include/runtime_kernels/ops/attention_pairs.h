// The two products of prefill attention by dot products of bfloat16 pairs, where queries and cache
// are bfloat16 and the instruction set has them. Queries and keys are multiplied as they are;
// weights are rounded to bfloat16 before they meet the values, their sum is of the unrounded ones.
#pragma once

#include <type_traits>

#include "runtime_kernels/ops/attention_parts.h"

namespace runtime_kernels::RUNTIME_ISA {

// Only vectors of sixteen: the others' pairs have been tried in products of weights alone.
template <class T, class C>
constexpr bool kByPairs = std::is_same_v<T, bf16> && std::is_same_v<C, bf16> &&
                          std::is_same_v<PairElement, bf16> && Vec::kWidth == 16;

// Queries [rows, padded] in the place of the floats', as they are.
inline bf16* load_pair_queries(const AttentionArgs& args, const AttentionTask& task, int64_t rows,
                               int64_t group, const Scratch& scratch) {
  const int64_t size = args.head_size, padded = padded_size(size);
  auto* out = reinterpret_cast<bf16*>(scratch.query);
  for (int64_t row = 0; row < rows; ++row) {
    const bf16* query = static_cast<const bf16*>(args.query) +
                        (task.token + row / group) * args.query_stride +
                        (task.kv_head * group + row % group) * size;
    std::memcpy(out + row * padded, query, static_cast<size_t>(size) * sizeof(bf16));
    std::memset(out + row * padded + size, 0, static_cast<size_t>(padded - size) * sizeof(bf16));
  }
  return out;
}

// A tile as pairs: keys [padded / 2][kTile][2 elements], values [kTile / 2][padded][2 keys]; zeros
// where there are none.
inline void copy_pair_tile(const bf16* const* keys, const bf16* const* values, int64_t count,
                           int64_t size, int64_t padded, const Scratch& scratch) {
  auto* key_pairs = reinterpret_cast<uint32_t*>(scratch.keys);
  auto* value_pairs = reinterpret_cast<uint32_t*>(scratch.values);
  if (count < kTile || size < padded) {
    std::memset(key_pairs, 0, static_cast<size_t>(kTile * padded / 2) * sizeof(uint32_t));
    std::memset(value_pairs, 0, static_cast<size_t>(kTile * padded / 2) * sizeof(uint32_t));
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t d = 0;
    for (; d + 2 <= size; d += 2) {
      std::memcpy(key_pairs + d / 2 * kTile + i, keys[i] + d, sizeof(uint32_t));
    }
    if (d < size) key_pairs[d / 2 * kTile + i] = keys[i][d].bits;
  }
  for (int64_t i = 0; i < count; i += 2) {
    const bf16* first = values[i];
    uint32_t* pairs = value_pairs + i / 2 * padded;
    if (i + 1 < count) {
      const bf16* second = values[i + 1];
      for (int64_t d = 0; d < size; ++d) {
        pairs[d] = first[d].bits | static_cast<uint32_t>(second[d].bits) << 16;
      }
    } else {
      for (int64_t d = 0; d < size; ++d) pairs[d] = first[d].bits;
    }
  }
}

// R rows and V vectors of c = (Add ? c : 0) + a b, k pairs long.
template <bool Add, int R, int V>
inline void pair_block(const bf16* a, int64_t lda, const bf16* b, int64_t ldb, float* c,
                       int64_t ldc, int64_t pairs) {
  Vec sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = Add ? Vec::load(c + r * ldc + v * Vec::kWidth) : zero();
    }
  }
  for (int64_t i = 0; i < pairs; ++i) {
    Pairs right[V];
    for (int v = 0; v < V; ++v) right[v] = Pairs::load(b + 2 * (i * ldb + v * Vec::kWidth));
    for (int r = 0; r < R; ++r) {
      // The same type wherever kByPairs holds; elsewhere nobody calls this.
      const PairValue left(reinterpret_cast<const PairElement*>(a + r * lda + 2 * i));
      for (int v = 0; v < V; ++v) sums[r][v] = left.add_to(right[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v].store(c + r * ldc + v * Vec::kWidth);
  }
}

template <bool Add, int V>
inline void pair_columns(const bf16* a, int64_t lda, const bf16* b, int64_t ldb, float* c,
                         int64_t ldc, int64_t m, int64_t pairs) {
  int64_t row = 0;
  for (; row + kBlockRows <= m; row += kBlockRows) {
    pair_block<Add, kBlockRows, V>(a + row * lda, lda, b, ldb, c + row * ldc, ldc, pairs);
  }
  for (; row < m; ++row) {
    pair_block<Add, 1, V>(a + row * lda, lda, b, ldb, c + row * ldc, ldc, pairs);
  }
}

// c [m, n] = (Add ? c : 0) + a [m, 2 pairs] b [pairs, n, 2], n a multiple of a vector.
template <bool Add>
inline void pair_product(const bf16* a, int64_t lda, const bf16* b, int64_t ldb, float* c,
                         int64_t ldc, int64_t m, int64_t n, int64_t pairs) {
  constexpr int64_t kWide = kBlockVectors * Vec::kWidth;
  int64_t column = 0;
  for (; column + kWide <= n; column += kWide) {
    pair_columns<Add, kBlockVectors>(a, lda, b + 2 * column, ldb, c + column, ldc, m, pairs);
  }
  for (; column < n; column += Vec::kWidth) {
    pair_columns<Add, 1>(a, lda, b + 2 * column, ldb, c + column, ldc, m, pairs);
  }
}

// A tile's logits, of queries as load_pair_queries() leaves them.
inline void pair_logits(const bf16* queries, int64_t rows, int64_t padded, float scale,
                        const Scratch& scratch) {
  pair_product<false>(queries, padded, reinterpret_cast<const bf16*>(scratch.keys), kTile,
                      scratch.logits, kTile, rows, kTile, padded / 2);
  for (int64_t row = 0; row < rows; ++row) scale_row(scratch.logits + row * kTile, kTile, scale);
}

// Add the values by a tile's weights, which become bfloat16 in the front half of their place.
inline void pair_values(int64_t rows, int64_t padded, const Scratch& scratch) {
  for (int64_t row = 0; row < rows; ++row) {
    const float* weights = scratch.logits + row * kTile;
    auto* narrow = reinterpret_cast<bf16*>(scratch.logits + row * kTile);
    for (int64_t i = 0; i < kTile; i += Vec::kWidth) {
      bf16 rounded[Vec::kWidth];
      Vec::load(weights + i).store(rounded);
      std::memcpy(static_cast<void*>(narrow + i), rounded, sizeof rounded);
    }
  }
  pair_product<true>(reinterpret_cast<const bf16*>(scratch.logits), 2 * kTile,
                     reinterpret_cast<const bf16*>(scratch.values), padded, scratch.out, padded,
                     rows, padded, kTile / 2);
}

}  // namespace runtime_kernels::RUNTIME_ISA
