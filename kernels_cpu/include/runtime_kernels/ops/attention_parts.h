// The steps of an attention task, in the order in which it takes them.
#pragma once

#include <cstring>
#include <type_traits>

#include "runtime_kernels/ops/quantize_heads.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr int64_t kTile = kAttentionKeys;
// Up to so many rows take dot products.
constexpr int64_t kFewRows = 8;
// A logit that no weight comes from; finite, so that differences of two are numbers.
constexpr float kNever = -1e30f;
// The register block of a product.
constexpr int64_t kBlockRows = 6;
constexpr int64_t kBlockVectors = Vec::kRegisters == 32 ? 4 : 2;

// Where a task keeps what it works on: float32, or pairs of bfloat16 in their place.
struct Scratch {
  float* query;   // [rows, padded]
  float* out;     // [rows, padded]
  float* logits;  // [rows, kTile], then the weights
  float* keys;    // [padded, kTile]: transposed
  float* values;  // [kTile, padded]
  float* most;    // [rows]
  float* sum;     // [rows, a vector], to be added up

  Scratch(float* memory, int64_t padded) {
    query = memory;
    out = query + kAttentionRows * padded;
    logits = out + kAttentionRows * padded;
    keys = logits + kAttentionRows * kTile;
    values = keys + padded * kTile;
    most = values + padded * kTile;
    sum = most + kAttentionRows;
  }
};

// Queries [rows, padded] as elements of type E, and what is summed from zero on.
template <class T, class E>
inline void load_queries(const AttentionArgs& args, const AttentionTask& task, int64_t group,
                         const Scratch& scratch) {
  const int64_t size = args.head_size, padded = padded_size(size);
  for (int64_t row = 0; row < task.tokens * group; ++row) {
    const T* query = static_cast<const T*>(args.query) +
                     (task.token + row / group) * args.query_stride +
                     (task.kv_head * group + row % group) * size;
    E* to = reinterpret_cast<E*>(scratch.query) + row * padded;
    if constexpr (std::is_same_v<T, E>) {
      std::memcpy(to, query, static_cast<size_t>(size) * sizeof(E));
    } else {
      for_vectors(size, [&](int64_t d, auto load, auto store) { store(load(query + d), to + d); });
    }
    std::memset(static_cast<void*>(to + size), 0, static_cast<size_t>(padded - size) * sizeof(E));
    float* out = scratch.out + row * padded;
    for (int64_t d = 0; d < padded; d += Vec::kWidth) zero().store(out + d);
    zero().store(scratch.sum + row * Vec::kWidth);
    scratch.most[row] = kNever;
  }
}

// Addresses of the keys and values of positions [begin, begin + count).
template <class T>
inline void locate(const AttentionArgs& args, const AttentionTask& task, int64_t begin,
                   int64_t count, const T** keys, const T** values) {
  const int64_t head = args.quantized ? cached_head_bytes(args.head_size) : args.head_size;
  const int64_t token_stride = args.kv_heads * head;
  int64_t block = begin / args.block_size, first = begin % args.block_size;
  for (int64_t i = 0; i < count; ++block, first = 0) {
    int64_t offset = (task.blocks[block] * args.block_size + first) * token_stride;
    offset += task.kv_head * head;
    for (; first < args.block_size && i < count; ++first, ++i, offset += token_stride) {
      keys[i] = static_cast<const T*>(args.keys) + offset;
      values[i] = static_cast<const T*>(args.values) + offset;
    }
  }
}

// What a cached head's elements are multiplied with.
template <class T>
inline float scale_of(const T*, int64_t) {
  return 1.0f;
}
inline float scale_of(const int8_t* head, int64_t size) { return head_scale(head, size); }

// Products of float32 queries and of keys of another type.
struct FloatDot {
  static constexpr int kStep = Vec::kWidth;
  using Operand = Vec;
  template <class E>
  static inline Operand load(const E* p) {
    return Vec::load(p);
  }
  template <class E>
  static inline Operand load_part(const E* p, int64_t n) {
    return RUNTIME_ISA::load_part(p, n);
  }
  static inline Vec add(Operand a, Operand b, Vec sum) { return fma(a, b, sum); }
};
// How queries of type T meet keys of type C, and what the queries are kept as.
template <class T, class C>
struct KeyDot {
  using Dot = FloatDot;
  using Element = float;
};
template <class T>
struct KeyDot<T, T> {
  using Dot = RUNTIME_ISA::Dot<T>;
  using Element = T;
};

// One key's products with R queries, to be added up.
template <class D, int R, class C, class E>
inline void add_key(const C* key, int64_t size, int64_t padded, const E* query, Vec (&sums)[R]) {
  for (int r = 0; r < R; ++r) sums[r] = zero();
  int64_t d = 0;
  for (; d + D::kStep <= size; d += D::kStep) {
    const typename D::Operand part = D::load(key + d);
    for (int r = 0; r < R; ++r) sums[r] = D::add(part, D::load(query + r * padded + d), sums[r]);
  }
  if (d == size) return;
  const typename D::Operand part = D::load_part(key + d, size - d);
  for (int r = 0; r < R; ++r) {
    sums[r] = D::add(part, D::load_part(query + r * padded + d, size - d), sums[r]);
  }
}

// Logits of R queries; zeros past the count up to a whole vector of keys. Sums of as many keys as a
// vector has lanes are turned, so that adding them up gives a vector of logits.
template <class D, int R, class C, class E>
inline void logits_of(const C* const* keys, int64_t count, int64_t size, int64_t padded,
                      const E* query, float* logits) {
  for (int64_t first = 0; first < count; first += Vec::kWidth) {
    Vec sums[R][Vec::kWidth];
    float scales[Vec::kWidth] = {};
    for (int i = 0; i < Vec::kWidth; ++i) {
      Vec one[R];
      for (int r = 0; r < R; ++r) one[r] = zero();
      if (first + i < count) {
        const C* key = keys[first + i];
        add_key<D, R>(key, size, padded, query, one);
        scales[i] = scale_of(key, size);
      }
      for (int r = 0; r < R; ++r) sums[r][i] = one[r];
    }
    for (int r = 0; r < R; ++r) {
      transpose(sums[r]);
      for (int step = Vec::kWidth / 2; step > 0; step /= 2) {
        for (int i = 0; i < step; ++i) sums[r][i] = sums[r][i] + sums[r][i + step];
      }
      (sums[r][0] * Vec::load(scales)).store(logits + r * kTile + first);
    }
  }
}

// Add R rows of V vectors of values by their weights.
template <class C, int R, int V>
inline void values_block(const C* const* values, int64_t count, int64_t d, int64_t padded,
                         const float* weights, float* out) {
  Vec sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v] = Vec::load(out + r * padded + d + v * Vec::kWidth);
  }
  for (int64_t i = 0; i < count; ++i) {
    Vec value[V];
    for (int v = 0; v < V; ++v) value[v] = Vec::load(values[i] + d + v * Vec::kWidth);
    for (int r = 0; r < R; ++r) {
      const Vec weight = Vec::set1(weights[r * kTile + i]);
      for (int v = 0; v < V; ++v) sums[r][v] = fma(weight, value[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v].store(out + r * padded + d + v * Vec::kWidth);
  }
}

template <class C, int R>
inline void values_of(const C* const* values, int64_t count, int64_t size, int64_t padded,
                      const float* weights, float* out) {
  constexpr int64_t kWide = kBlockVectors * Vec::kWidth;
  int64_t d = 0;
  for (; d + kWide <= size; d += kWide) {
    values_block<C, R, kBlockVectors>(values, count, d, padded, weights, out);
  }
  for (; d + Vec::kWidth <= size; d += Vec::kWidth) {
    values_block<C, R, 1>(values, count, d, padded, weights, out);
  }
  if (d == size) return;
  for (int64_t i = 0; i < count; ++i) {
    const Vec value = load_part(values[i] + d, size - d);
    for (int r = 0; r < R; ++r) {
      float* to = out + r * padded + d;
      fma(Vec::set1(weights[r * kTile + i]), value, Vec::load(to)).store(to);
    }
  }
}

// Call f<R>(row) for all rows, four at a time.
#define RUNTIME_FOR_ROWS(rows, call)     \
  for (int64_t row = 0; row < (rows);) { \
    switch ((rows) - row) {              \
      case 1: {                          \
        constexpr int R = 1;             \
        call;                            \
        row += 1;                        \
        break;                           \
      }                                  \
      case 2: {                          \
        constexpr int R = 2;             \
        call;                            \
        row += 2;                        \
        break;                           \
      }                                  \
      case 3: {                          \
        constexpr int R = 3;             \
        call;                            \
        row += 3;                        \
        break;                           \
      }                                  \
      default: {                         \
        constexpr int R = 4;             \
        call;                            \
        row += 4;                        \
      }                                  \
    }                                    \
  }

template <class T, class C>
inline void few_logits(const C* const* keys, int64_t count, int64_t rows, int64_t size,
                       int64_t padded, const Scratch& scratch) {
  using Way = KeyDot<T, C>;
  const auto* query = reinterpret_cast<const typename Way::Element*>(scratch.query);
  RUNTIME_FOR_ROWS(rows,
                   (logits_of<typename Way::Dot, R>(keys, count, size, padded, query + row * padded,
                                                    scratch.logits + row * kTile)));
}

template <class T>
inline void few_values(const T* const* values, int64_t count, int64_t rows, int64_t size,
                       int64_t padded, const Scratch& scratch) {
  if constexpr (sizeof(T) == 1) {
    for (int64_t i = 0; i < count; ++i) {
      const float scale = scale_of(values[i], size);
      for (int64_t row = 0; row < rows; ++row) scratch.logits[row * kTile + i] *= scale;
    }
  }
  RUNTIME_FOR_ROWS(rows, (values_of<T, R>(values, count, size, padded, scratch.logits + row * kTile,
                                          scratch.out + row * padded)));
}

#undef RUNTIME_FOR_ROWS

inline void scale_row(float* row, int64_t size, float scale) {
  if (scale == 1.0f) return;
  const Vec by = Vec::set1(scale);
  for (int64_t d = 0; d < size; d += Vec::kWidth) (Vec::load(row + d) * by).store(row + d);
}

template <class T>
inline void store_results(const AttentionArgs& args, const AttentionTask& task, int64_t group,
                          const Scratch& scratch) {
  const int64_t size = args.head_size, padded = padded_size(size);
  for (int64_t row = 0; row < task.tokens * group; ++row) {
    const float* from = scratch.out + row * padded;
    if (task.partial != nullptr) {
      float* to = task.partial + row * partial_floats(size);
      to[0] = scratch.most[row];
      to[1] = Vec::load(scratch.sum + row * Vec::kWidth).sum();
      std::memcpy(to + 2, from, static_cast<size_t>(size) * sizeof(float));
      continue;
    }
    const Vec whole = Vec::set1(1.0f / Vec::load(scratch.sum + row * Vec::kWidth).sum());
    const int64_t token = task.token + row / group, head = task.kv_head * group + row % group;
    T* out = static_cast<T*>(args.out) + (token * args.heads + head) * size;
    for_vectors(size,
                [&](int64_t d, auto, auto store) { store(Vec::load(from + d) * whole, out + d); });
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
