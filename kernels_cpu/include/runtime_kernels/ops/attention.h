// Attention of a few query rows over a range of cached keys, with the softmax of Milakov &
// Gimelshein 2018 (arXiv:1805.02867) that needs one pass: the running maximum m of the logits, the
// sum l of exp(logit - m), and the values weighted by it.
//
// A row is a query head of a token; all rows of a task share a key head, so that each key and value
// is loaded once for them. Keys come in tiles. Few rows (decode) take dot products with the keys as
// they are; many (prefill) take two small matrix products with a copy of the tile
// (attention_products.h). Logits are kept times log2(e), so that weights are powers of two.
#pragma once

#include "runtime_kernels/ops/attention_parts.h"
#include "runtime_kernels/ops/attention_products.h"

namespace runtime_kernels::RUNTIME_ISA {

// The visible keys of a row within [begin, begin + count).
struct Visible {
  int64_t low, high;
};

inline Visible visible_of(int64_t window, int64_t position, int64_t begin, int64_t count) {
  const int64_t high = position + 1 - begin;
  const int64_t low = window > 0 ? position + 1 - window - begin : 0;
  return {low < 0 ? 0 : low, high > count ? count : high};
}

// Logits become these times log2(e): scaled, and bounded where `cap` is not 0.
struct LogitScale {
  float scale, cap;
  explicit LogitScale(const AttentionArgs& args)
      : scale(args.scale * kLog2e), cap(args.soft_cap * kLog2e) {}
  static constexpr float kLog2e = 1.44269504f;
};

// Logits [width], times `by`, to weights as units have them, in their place; returns by how much
// what was summed before must be scaled.
template <class U>
[[gnu::always_inline]] inline float to_weights(float* logits, int64_t width, Vec by, float* most,
                                               float* sums) {
  auto* weights = reinterpret_cast<typename U::Element*>(logits);
  Vec top = Vec::set1(*most);
  for (int64_t i = 0; i < width; i += Vec::kWidth) top = max(top, Vec::load(logits + i) * by);
  const float before = *most, now = top.highest();
  const Vec shift = Vec::set1(-now);
  Vec sum = zero();
  for (int64_t i = 0; i < width; i += Vec::kWidth) {
    const Vec weight = exp2(fma(Vec::load(logits + i), by, shift));
    U::store(weight, weights + i);  // A narrower one lies where logits were read.
    sum = sum + weight;
  }
  if (!(now > before)) {
    (Vec::load(sums) + sum).store(sums);
    return 1.0f;
  }
  *most = now;
  const Vec rescale = exp2(Vec::set1(before - now));
  fma(Vec::load(sums), rescale, sum).store(sums);
  float lanes[Vec::kWidth];
  rescale.store(lanes);
  return lanes[0];
}

// The same for products of queries and keys, of which only some may be seen.
template <class U>
inline float update_softmax(float* logits, int64_t width, Visible seen, LogitScale scale,
                            float* most, float* sums) {
  Vec by = Vec::set1(scale.scale);
  if (scale.cap == 0 && seen.low == 0 && seen.high == kTile) {
    return to_weights<U>(logits, kTile, by, most, sums);
  }
  if (seen.high <= seen.low) {
    auto* weights = reinterpret_cast<typename U::Element*>(logits);
    for (int64_t i = 0; i < width; i += Vec::kWidth) U::store(zero(), weights + i);
    return 1.0f;
  }
  const Vec cap = Vec::set1(scale.cap);
  for (int64_t i = 0; i < width; i += Vec::kWidth) {
    const Vec logit = Vec::load(logits + i) * by;
    (scale.cap > 0 ? cap * tanh(logit / cap) : logit).store(logits + i);
  }
  for (int64_t i = 0; i < seen.low; ++i) logits[i] = kNever;
  for (int64_t i = seen.high; i < width; ++i) logits[i] = kNever;
  return to_weights<U>(logits, width, Vec::set1(1.0f), most, sums);
}

// All rows' weights, and what was summed before scaled to them.
template <class U>
inline void update_rows(const AttentionArgs& args, const AttentionTask& task, int64_t group,
                        int64_t begin, int64_t count, int64_t width, const Scratch& scratch) {
  const int64_t padded = padded_size(args.head_size);
  const LogitScale scale(args);
  for (int64_t token = 0, row = 0; token < task.tokens; ++token) {
    const Visible seen = visible_of(args.window, task.position + token, begin, count);
    for (const int64_t end = row + group; row < end; ++row) {
      const float by = update_softmax<U>(scratch.logits + row * kTile, width, seen, scale,
                                         scratch.most + row, scratch.sum + row * Vec::kWidth);
      scale_row(scratch.out + row * padded, padded, by);
    }
  }
}

// A tile's keys and values, for few rows as they lie and for many as a copy.
template <class T, class C>
struct FewRows {
  static constexpr bool kFetches = true;
  static inline void add_tile(const AttentionArgs& args, const AttentionTask& task, int64_t group,
                              int64_t begin, int64_t count, int64_t width, const C* const* keys,
                              const C* const* values, const Scratch& scratch) {
    const int64_t size = args.head_size, padded = padded_size(size), rows = task.tokens * group;
    few_logits<T, C>(keys, count, rows, size, padded, scratch);
    update_rows<Singles>(args, task, group, begin, count, width, scratch);
    few_values<C>(values, count, rows, size, padded, scratch);
  }
};

template <class C, class U>
struct ManyRows {
  // Rows share what is read, so they hardly wait for it.
  static constexpr bool kFetches = false;
  static inline void add_tile(const AttentionArgs& args, const AttentionTask& task, int64_t group,
                              int64_t begin, int64_t count, int64_t width, const C* const* keys,
                              const C* const* values, const Scratch& scratch) {
    using Element = typename U::Element;
    constexpr int64_t kOfUnit = U::kTogether;
    const int64_t size = args.head_size, padded = padded_size(size), rows = task.tokens * group;
    copy_keys<U>(keys, count, width, size, padded, scratch.keys);
    product<U, false>(reinterpret_cast<const Element*>(scratch.query), padded,
                      reinterpret_cast<const Element*>(scratch.keys), kTile, scratch.logits, kTile,
                      rows, width, padded / kOfUnit);
    update_rows<U>(args, task, group, begin, count, width, scratch);
    copy_values<U>(values, count, size, padded, scratch.values);
    product<U, true>(reinterpret_cast<const Element*>(scratch.logits), kOfUnit * kTile,
                     reinterpret_cast<const Element*>(scratch.values), padded, scratch.out, padded,
                     rows, padded, (count + kOfUnit - 1) / kOfUnit);
  }
};

// Where a tile's keys and values are.
template <class C>
struct Tile {
  int64_t begin, count;
  const C* keys[kTile];
  const C* values[kTile];

  inline void find(const AttentionArgs& args, const AttentionTask& task, int64_t from) {
    const int64_t left = task.key_end - from;
    begin = from;
    count = left < kTile ? left : kTile;
    if (count > 0) locate<C>(args, task, begin, count, keys, values);
  }
  // Ask for all of it. Blocks lie anywhere, and a head's part of a token is a few cache lines: no
  // pattern that the hardware would read ahead of.
  inline void fetch(int64_t head_bytes) const {
    constexpr int64_t kLine = 64;
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t at = 0; at < head_bytes; at += kLine) {
        __builtin_prefetch(reinterpret_cast<const char*>(keys[i]) + at);
        __builtin_prefetch(reinterpret_cast<const char*>(values[i]) + at);
      }
    }
  }
};

template <class C, class Way>
inline void for_tiles_of_keys(const AttentionArgs& args, const AttentionTask& task, int64_t group,
                              const Scratch& scratch) {
  const int64_t head_bytes = args.head_size * static_cast<int64_t>(sizeof(C));
  Tile<C> tiles[2];
  tiles[0].find(args, task, task.key_begin);
  if (Way::kFetches) tiles[0].fetch(head_bytes);
  for (int turn = 0; tiles[turn].count > 0; turn = 1 - turn) {
    const Tile<C>& tile = tiles[turn];
    Tile<C>& next = tiles[1 - turn];
    next.find(args, task, tile.begin + kTile);
    if (Way::kFetches) next.fetch(head_bytes);
    const int64_t width = (tile.count + Vec::kWidth - 1) / Vec::kWidth * Vec::kWidth;
    Way::add_tile(args, task, group, tile.begin, tile.count, width, tile.keys, tile.values,
                  scratch);
  }
}

// T: of queries and results; C: of the cache.
template <class T, class C>
void attention_task(const AttentionArgs& args, const AttentionTask& task, float* memory) {
  using Units = UnitsOf<T, C>;
  const int64_t group = args.heads / args.kv_heads;
  const Scratch scratch(memory, padded_size(args.head_size));
  if (task.tokens * group <= kFewRows) {
    load_queries<T, typename KeyDot<T, C>::Element>(args, task, group, scratch);
    for_tiles_of_keys<C, FewRows<T, C>>(args, task, group, scratch);
  } else {
    load_queries<T, typename Units::Element>(args, task, group, scratch);
    for_tiles_of_keys<C, ManyRows<C, Units>>(args, task, group, scratch);
  }
  store_results<T>(args, task, group, scratch);
}

template <class T>
void merge_parts(const AttentionArgs& args, const float* partials, int64_t parts, int64_t rows,
                 int64_t token, int64_t kv_head) {
  const int64_t size = args.head_size, floats = partial_floats(size);
  const int64_t group = args.heads / args.kv_heads;
  for (int64_t row = 0; row < rows; ++row) {
    const auto part = [&](int64_t index) { return partials + (index * rows + row) * floats; };
    float most = kNever, sum = 0.0f;
    for (int64_t i = 0; i < parts; ++i) most = part(i)[0] > most ? part(i)[0] : most;
    const auto scale_of = [&](int64_t index) { return exp2(Vec::set1(part(index)[0] - most)); };
    for (int64_t i = 0; i < parts; ++i) {
      float scale[Vec::kWidth];
      scale_of(i).store(scale);
      sum += scale[0] * part(i)[1];
    }
    const Vec whole = Vec::set1(1.0f / sum);
    const int64_t head = (token + row / group) * args.heads + kv_head * group + row % group;
    T* out = static_cast<T*>(args.out) + head * size;
    for_vectors(size, [&](int64_t d, auto load, auto store) {
      Vec total = zero();
      for (int64_t i = 0; i < parts; ++i) total = fma(scale_of(i), load(part(i) + 2 + d), total);
      store(total * whole, out + d);
    });
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
