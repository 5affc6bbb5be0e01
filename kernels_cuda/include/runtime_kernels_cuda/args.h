// What each kernel is launched with. Pointers are the device's; strides count elements.
#pragma once

#include <cstdint>

#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

struct RmsNormArgs {
  DType dtype;
  const void* x;         // [rows, width], as all others but weight
  const void* residual;  // null: none is added
  const void* weight;    // [width]; may be read before earlier work is done
  void* out;             // norm(x + residual) * weight
  void* total;           // x + residual; null without residual
  int64_t rows, width;
  float eps;
};

enum class Activation : int { kSilu = 0, kGeluTanh = 1 };

struct GateArgs {
  DType dtype;
  Activation activation;
  const void* x;  // [rows, 2 width]
  void* out;      // [rows, width]
  int64_t rows, width;
};

// Rotary embedding and the cache write, either without the other too.
struct RotaryArgs {
  DType dtype;        // of all but the cache
  DType cache_dtype;  // dtype, or float8, for which there may be scales
  const void* query;  // [tokens, heads, head_size], heads contiguous, as key and value
  const void* key;    // [tokens, kv_heads, head_size]
  const void* value;  // null: none is written
  int64_t query_stride, key_stride, value_stride;  // From token to token.
  const int64_t* positions;                        // [tokens]
  const void* table;         // [known_positions, rotated]: cosines, then sines
  void* query_out;           // [tokens, heads, head_size], contiguous
  void* keys;                // [slots, kv_heads, head_size], as values
  void* values;              // null without value
  const int64_t* slots;      // [tokens]: rows of keys and values; null: the token's own number
  const float* key_scale;    // one number, by which float8 keys are divided; null: 1
  const float* value_scale;  // the same of values
  int64_t tokens, known_positions, known_slots;
  int heads, kv_heads, head_size, rotated;  // heads 0, rotated 0: a cache write alone.
};

struct CopyBlocksArgs {
  void* kv_cache;        // [2, blocks], of block_bytes
  const int64_t* pairs;  // [count, 2]: from, to
  int64_t count, blocks, block_bytes;
};

struct LinearArgs {
  DType dtype;         // bfloat16 or float16
  const void* x;       // [rows, k]
  const void* weight;  // [n, k]; may be read before earlier work is done
  const void* bias;    // [n] or null
  void* out;           // [rows, n]
  int64_t rows, n, k;  // k a multiple of 8, rows 16 at most
};

}  // namespace runtime_kernels_cuda
