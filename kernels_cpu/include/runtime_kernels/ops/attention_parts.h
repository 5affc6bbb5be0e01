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

template <class T, int R>
inline void logits_of(const T* const* keys, int64_t count, int64_t size, int64_t padded,
                      const float* query, float* logits) {
  for (int64_t i = 0; i < count; ++i) {
    Vec sums[R];
    for (int r = 0; r < R; ++r) sums[r] = zero();
    for_vectors(size, [&](int64_t d, auto load, auto) {
      const Vec key = load(keys[i] + d);
      // Queries are padded with zeros to whole vectors.
      for (int r = 0; r < R; ++r) sums[r] = fma(key, Vec::load(query + r * padded + d), sums[r]);
    });
    const float scale = scale_of(keys[i], size);
    for (int r = 0; r < R; ++r) logits[r * kTile + i] = scale * sums[r].sum();
  }
}

template <class T, int R>
inline void values_of(const T* const* values, int64_t count, int64_t size, int64_t padded,
                      const float* weights, float* out) {
  for_vectors(size, [&](int64_t d, auto load, auto) {
    Vec sums[R];
    for (int r = 0; r < R; ++r) sums[r] = Vec::load(out + r * padded + d);
    for (int64_t i = 0; i < count; ++i) {
      const Vec value = load(values[i] + d);
      for (int r = 0; r < R; ++r) {
        sums[r] = fma(Vec::set1(weights[r * kTile + i]), value, sums[r]);
      }
    }
    for (int r = 0; r < R; ++r) sums[r].store(out + r * padded + d);
  });
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

template <class T>
inline void few_logits(const T* const* keys, int64_t count, int64_t width, int64_t rows,
                       int64_t size, int64_t padded, const Scratch& scratch) {
  RUNTIME_FOR_ROWS(rows, (logits_of<T, R>(keys, count, size, padded, scratch.query + row * padded,
                                          scratch.logits + row * kTile)));
  // update_softmax() masks these; they must be numbers.
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = count; i < width; ++i) scratch.logits[row * kTile + i] = 0.0f;
  }
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
