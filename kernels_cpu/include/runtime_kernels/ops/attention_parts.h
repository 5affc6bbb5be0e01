// The steps of an attention task, in the order in which it takes them.
#pragma once

#include "runtime_kernels/ops/quantize_heads.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr int64_t kTile = kAttentionKeys;
// Up to so many rows take dot products.
constexpr int64_t kFewRows = 8;
// A logit that no weight comes from; finite, so that differences of two are numbers.
constexpr float kNever = -1e30f;
// The register block of product().
constexpr int64_t kBlockRows = 6;
constexpr int64_t kBlockVectors = Vec::kRegisters == 32 ? 4 : 2;

// Where a task keeps what it works on, all float32.
struct Scratch {
  float* query;   // [rows, padded], scaled
  float* out;     // [rows, padded]
  float* logits;  // [rows, kTile]
  float* keys;    // [padded, kTile]: transposed
  float* values;  // [kTile, padded]
  float* most;    // [rows]
  float* sum;     // [rows]

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

template <class T>
inline void load_queries(const AttentionArgs& args, const AttentionTask& task, int64_t rows,
                         int64_t group, const Scratch& scratch) {
  const int64_t size = args.head_size, padded = padded_size(size);
  const Vec scale = Vec::set1(args.scale);
  for (int64_t row = 0; row < rows; ++row) {
    const T* query = static_cast<const T*>(args.query) +
                     (task.token + row / group) * args.query_stride +
                     (task.kv_head * group + row % group) * size;
    float* to = scratch.query + row * padded;
    float* out = scratch.out + row * padded;
    for (int64_t d = 0; d < padded; ++d) to[d] = out[d] = 0.0f;
    for_vectors(size,
                [&](int64_t d, auto load, auto store) { store(load(query + d) * scale, to + d); });
  }
}

// Addresses of the keys and values of positions [begin, begin + count).
template <class T>
inline void locate(const AttentionArgs& args, const AttentionTask& task, int64_t begin,
                   int64_t count, const T** keys, const T** values) {
  const int64_t head = args.quantized ? cached_head_bytes(args.head_size) : args.head_size;
  const int64_t token_stride = args.kv_heads * head;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t position = begin + i, block = task.blocks[position / args.block_size];
    const int64_t slot = block * args.block_size + position % args.block_size;
    const int64_t offset = slot * token_stride + task.kv_head * head;
    keys[i] = static_cast<const T*>(args.keys) + offset;
    values[i] = static_cast<const T*>(args.values) + offset;
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
inline void few_logits(const T* const* keys, int64_t count, int64_t rows, int64_t size,
                       int64_t padded, const Scratch& scratch) {
  RUNTIME_FOR_ROWS(rows, (logits_of<T, R>(keys, count, size, padded, scratch.query + row * padded,
                                          scratch.logits + row * kTile)));
  // update_softmax() masks these; they must be numbers.
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = count; i < kTile; ++i) scratch.logits[row * kTile + i] = 0.0f;
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

// A tile as float32: keys transposed, values as they are; zeros where there are none.
template <class T>
inline void copy_tile(const T* const* keys, const T* const* values, int64_t count, int64_t size,
                      int64_t padded, const Scratch& scratch) {
  for (int64_t i = 0; i < kTile; ++i) {
    float* value = scratch.values + i * padded;
    for (int64_t d = i < count ? size : 0; d < padded; ++d) {
      value[d] = scratch.keys[d * kTile + i] = 0.0f;
    }
    if (i >= count) continue;
    const Vec key_scale = Vec::set1(scale_of(keys[i], size));
    const Vec value_scale = Vec::set1(scale_of(values[i], size));
    for_vectors(size, [&](int64_t d, auto load, auto store) {
      store(load(values[i] + d) * value_scale, value + d);
      float lanes[Vec::kWidth];
      (load(keys[i] + d) * key_scale).store(lanes);
      const int64_t n = size - d < Vec::kWidth ? size - d : Vec::kWidth;
      for (int64_t j = 0; j < n; ++j) scratch.keys[(d + j) * kTile + i] = lanes[j];
    });
  }
}

// R rows and V vectors of c = (Add ? c : 0) + a b.
template <bool Add, int R, int V>
inline void product_block(const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                          int64_t ldc, int64_t k) {
  Vec sums[R][V];
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) {
      sums[r][v] = Add ? Vec::load(c + r * ldc + v * Vec::kWidth) : zero();
    }
  }
  for (int64_t i = 0; i < k; ++i) {
    Vec right[V];
    for (int v = 0; v < V; ++v) right[v] = Vec::load(b + i * ldb + v * Vec::kWidth);
    for (int r = 0; r < R; ++r) {
      const Vec left = Vec::set1(a[r * lda + i]);
      for (int v = 0; v < V; ++v) sums[r][v] = fma(left, right[v], sums[r][v]);
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int v = 0; v < V; ++v) sums[r][v].store(c + r * ldc + v * Vec::kWidth);
  }
}

template <bool Add, int V>
inline void product_columns(const float* a, int64_t lda, const float* b, int64_t ldb, float* c,
                            int64_t ldc, int64_t m, int64_t k) {
  int64_t row = 0;
  for (; row + kBlockRows <= m; row += kBlockRows) {
    product_block<Add, kBlockRows, V>(a + row * lda, lda, b, ldb, c + row * ldc, ldc, k);
  }
  for (; row < m; ++row) {
    product_block<Add, 1, V>(a + row * lda, lda, b, ldb, c + row * ldc, ldc, k);
  }
}

// c [m, n] = (Add ? c : 0) + a [m, k] b [k, n], n a multiple of a vector.
template <bool Add>
inline void product(const float* a, int64_t lda, const float* b, int64_t ldb, float* c, int64_t ldc,
                    int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kWide = kBlockVectors * Vec::kWidth;
  int64_t column = 0;
  for (; column + kWide <= n; column += kWide) {
    product_columns<Add, kBlockVectors>(a, lda, b + column, ldb, c + column, ldc, m, k);
  }
  for (; column < n; column += Vec::kWidth) {
    product_columns<Add, 1>(a, lda, b + column, ldb, c + column, ldc, m, k);
  }
}

inline void scale_row(float* row, int64_t size, float scale) {
  if (scale == 1.0f) return;
  const Vec by = Vec::set1(scale);
  for (int64_t d = 0; d < size; d += Vec::kWidth) (Vec::load(row + d) * by).store(row + d);
}

template <class T>
inline void store_results(const AttentionArgs& args, const AttentionTask& task, int64_t rows,
                          int64_t group, const Scratch& scratch) {
  const int64_t size = args.head_size, padded = padded_size(size);
  for (int64_t row = 0; row < rows; ++row) {
    const float* from = scratch.out + row * padded;
    if (task.partial != nullptr) {
      float* to = task.partial + row * partial_floats(size);
      to[0] = scratch.most[row];
      to[1] = scratch.sum[row];
      std::memcpy(to + 2, from, static_cast<size_t>(size) * sizeof(float));
      continue;
    }
    const Vec whole = Vec::set1(1.0f / scratch.sum[row]);
    const int64_t token = task.token + row / group, head = task.kv_head * group + row % group;
    T* out = static_cast<T*>(args.out) + (token * args.heads + head) * size;
    for_vectors(size,
                [&](int64_t d, auto, auto store) { store(Vec::load(from + d) * whole, out + d); });
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
