// Attention of a few query rows over a range of cached keys, with the softmax of Milakov &
// Gimelshein 2018 (arXiv:1805.02867) that needs one pass: the running maximum m of the logits, the
// sum l of exp(logit - m), and the values weighted by it.
//
// A row is a query head of a token; all rows of a task share a key head, so that each key and value
// is loaded once for them. Keys come in tiles. Few rows (decode) take dot products with the keys as
// they are; many (prefill) take two small matrix products with a tile that is copied as float32, or
// as pairs of bfloat16 (attention_pairs.h).
#pragma once

#include "runtime_kernels/ops/attention_pairs.h"
#include "runtime_kernels/ops/attention_parts.h"

namespace runtime_kernels::RUNTIME_ISA {

// The visible keys of a row within [begin, begin + kTile).
struct Visible {
  int64_t low, high;
};

inline Visible visible_of(const AttentionArgs& args, const AttentionTask& task, int64_t row,
                          int64_t group, int64_t begin, int64_t count) {
  const int64_t position = task.position + row / group;
  int64_t high = position + 1 - begin, low = 0;
  if (args.window > 0) low = position + 1 - args.window - begin;
  return {low < 0 ? 0 : low, high > count ? count : high};
}

// Logits [kTile] to weights, in place; returns by how much what was summed before must be scaled.
inline float update_softmax(float* logits, Visible seen, float soft_cap, float* most, float* sum) {
  if (seen.high <= seen.low) {
    for (int64_t i = 0; i < kTile; ++i) logits[i] = 0.0f;
    return 1.0f;
  }
  if (soft_cap > 0) {
    const Vec cap = Vec::set1(soft_cap);
    for (int64_t i = 0; i < kTile; i += Vec::kWidth) {
      (cap * tanh(Vec::load(logits + i) / cap)).store(logits + i);
    }
  }
  for (int64_t i = 0; i < seen.low; ++i) logits[i] = kNever;
  for (int64_t i = seen.high; i < kTile; ++i) logits[i] = kNever;
  Vec top = Vec::set1(*most);
  for (int64_t i = 0; i < kTile; i += Vec::kWidth) top = max(top, Vec::load(logits + i));
  const float now = top.highest();
  const Vec shift = Vec::set1(now);
  Vec weights = zero();
  for (int64_t i = 0; i < kTile; i += Vec::kWidth) {
    const Vec weight = exp(Vec::load(logits + i) - shift);
    weight.store(logits + i);
    weights = weights + weight;
  }
  float scale[Vec::kWidth];
  exp(Vec::set1(*most) - shift).store(scale);
  *most = now;
  *sum = *sum * scale[0] + weights.sum();
  return scale[0];
}

// T: of queries and results; C: of the cache.
template <class T, class C>
void attention_task(const AttentionArgs& args, const AttentionTask& task, float* memory) {
  const int64_t size = args.head_size, padded = padded_size(size);
  const int64_t group = args.heads / args.kv_heads, rows = task.tokens * group;
  const Scratch scratch(memory, padded);
  load_queries<T>(args, task, rows, group, scratch);
  for (int64_t row = 0; row < rows; ++row) {
    scratch.most[row] = kNever;
    scratch.sum[row] = 0.0f;
  }
  const bool few = rows <= kFewRows;
  constexpr bool kPairs = kByPairs<T, C>;
  const bf16* pair_queries = nullptr;
  if (kPairs && !few) pair_queries = load_pair_queries(args, task, rows, group, scratch);
  for (int64_t begin = task.key_begin; begin < task.key_end; begin += kTile) {
    const int64_t left = task.key_end - begin, count = left < kTile ? left : kTile;
    const C* keys[kTile];
    const C* values[kTile];
    locate<C>(args, task, begin, count, keys, values);
    if (few) {
      few_logits<C>(keys, count, rows, size, padded, scratch);
    } else if constexpr (kPairs) {
      copy_pair_tile(keys, values, count, size, padded, scratch);
      pair_logits(pair_queries, rows, padded, args.scale, scratch);
    } else {
      copy_tile<C>(keys, values, count, size, padded, scratch);
      product<false>(scratch.query, padded, scratch.keys, kTile, scratch.logits, kTile, rows, kTile,
                     padded);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const Visible seen = visible_of(args, task, row, group, begin, count);
      const float scale = update_softmax(scratch.logits + row * kTile, seen, args.soft_cap,
                                         scratch.most + row, scratch.sum + row);
      scale_row(scratch.out + row * padded, padded, scale);
    }
    if (few) {
      few_values<C>(values, count, rows, size, padded, scratch);
    } else if constexpr (kPairs) {
      pair_values(rows, padded, scratch);
    } else {
      product<true>(scratch.logits, kTile, scratch.values, padded, scratch.out, padded, rows,
                    padded, kTile);
    }
  }
  store_results<T>(args, task, rows, group, scratch);
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
    const auto scale_of = [&](int64_t index) { return exp(Vec::set1(part(index)[0] - most)); };
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
