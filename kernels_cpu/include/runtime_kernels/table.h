// What one instruction set's translation unit offers: a table of functions over plain pointers.
//
// Every function computes the items [begin, end) of its arguments, so that the caller can split
// the work among threads. Results do not depend on the split.
#pragma once

#include <cstdint>

#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/types.h"

namespace runtime_kernels {

// Rows of `width` elements; item: a row.
struct NormArgs {
  DType dtype;
  const void* x;
  const void* residual;  // Null: none is added.
  const void* weight;    // [width]
  void* out;
  void* total;  // x + residual; null where there is no residual.
  int64_t width;
  float eps;
};

enum class Activation : int32_t { kSilu, kGeluTanh };

// out = act(x[:, :width]) * x[:, width:]; item: a row.
struct GateArgs {
  DType dtype;
  Activation activation;
  const void* x;
  void* out;
  int64_t width;
};

// One of query and key; item: a token. Strides in elements, heads are contiguous in a token.
struct RotaryArgs {
  DType dtype;
  const void* x;
  void* out;
  int64_t x_stride;
  int64_t heads;
  int64_t head_size;
  const int64_t* positions;
  const void* table;  // [positions, rotated]: cosines, then sines.
  int64_t rotated;
};

// out [m, n] = x [m, k] * weight [n, k]^T + bias [n]; item: an output feature.
struct LinearArgs {
  DType dtype;
  const void* x;
  const void* weight;
  const void* bias;  // Null: none.
  void* out;
  int64_t m, n, k;
};

// Rows of x as a product with a packed format takes them; item: a row. They are filled up with
// zeros to padded_width() elements.
struct PrepareArgs {
  DType dtype;
  PackedFormat format;
  const void* x;  // [rows, width]
  int64_t width;
  void* values;        // For each row KernelTable::prepared_bytes() bytes.
  QuantScale* scales;  // [rows, ceil(width / 32)]; not for floats.
};

// out [m, n] = x [m, k] * weight^T + bias [n]; item: a group of sixteen output features.
struct PackedArgs {
  DType dtype;
  PackedFormat format;
  const void* values;  // x, as prepare() leaves it.
  const QuantScale* scales;
  const uint8_t* weight;  // Groups of group_bytes().
  const void* bias;       // Null: none.
  void* out;
  int64_t out_stride;  // Elements from row to row.
  int64_t m, n;
  int64_t k;  // padded_width() of the format.
};

// Paged attention. Keys and values are [blocks, block_size, kv_heads, head_size] of the dtype, or
// rows of bytes (see cached_head_bytes()) where `quantized`.
struct AttentionArgs {
  DType dtype;
  bool quantized;
  const void* query;  // [tokens, heads, head_size], `query_stride` elements between tokens.
  int64_t query_stride;
  const void* keys;
  const void* values;
  void* out;  // [tokens, heads, head_size]
  int64_t heads;
  int64_t kv_heads;
  int64_t head_size;
  int64_t block_size;
  float scale;
  int64_t window;  // 0: none.
  float soft_cap;  // 0: none.
};

// Consecutive tokens of one request with the query heads of one key head, against a range of keys.
struct AttentionTask {
  const int32_t* blocks;  // The request's block ids.
  int64_t token;          // Its first token in the batch.
  int64_t tokens;
  int64_t position;  // That token's position in the request.
  int64_t kv_head;
  int64_t key_begin, key_end;
  // Where a part of the keys leaves its result, to be merged: for each row its maximal logit, the
  // sum of its weights, and head_size weighted values. Null: these are all keys, write to out.
  float* partial;
};

// Query rows (tokens x query heads of a key head) that one task may have.
constexpr int64_t kAttentionRows = 128;
// Keys that a task looks at together.
constexpr int64_t kAttentionKeys = 64;

// Rows of logits [vocab].
struct LargestArgs {
  DType dtype;
  const void* logits;
  int64_t vocab;
};

// A token drawn of each row's logits; item: a row. The filters are core/ops/sample_tokens.py's.
struct DrawArgs {
  DType dtype;
  const void* logits;
  int64_t vocab;
  const float* temperature;
  const int32_t* top_k;
  const float* top_p;
  const float* min_p;
  const float* uniform;
  int64_t* out;
};

// Penalties as core/ops/apply_penalties.py has them; item: a row.
struct PenaltyArgs {
  DType dtype;
  void* logits;
  int64_t vocab;
  const int32_t* token_ids;
  const int32_t* starts;
  const int32_t* output_starts;
  const float* repetition;
  const float* presence;
  const float* frequency;
};

// Heads of a quantized cache; item: a head.
struct QuantizeArgs {
  DType dtype;
  const void* x;  // [heads, head_size]
  int64_t head_size;
  int8_t* out;  // [heads, cached_head_bytes()]
};

struct KernelTable {
  const char* name;
  void (*norm)(const NormArgs&, int64_t begin, int64_t end);
  void (*gate)(const GateArgs&, int64_t begin, int64_t end);
  void (*rotary)(const RotaryArgs&, int64_t begin, int64_t end);
  void (*linear)(const LinearArgs&, int64_t begin, int64_t end);
  // `scratch`: attention_scratch() floats of the calling thread's own, 64-byte aligned.
  int64_t (*prepared_bytes)(PackedFormat, int64_t k);  // k: padded.
  void (*prepare)(const PrepareArgs&, int64_t begin, int64_t end);
  // Floats of the calling thread's own that packed_linear() of m rows needs; 0: none, and null.
  int64_t (*panel_floats)(PackedFormat, int64_t k, int64_t m);
  void (*packed_linear)(const PackedArgs&, int64_t begin, int64_t end, float* panel);
  // n floats to elements of another type, from the one numbered `first` in out.
  void (*convert)(DType, const float* x, void* out, int64_t first, int64_t n);
  void (*attention)(const AttentionArgs&, const AttentionTask&, float* scratch);
  // Combine `parts` partial results of `rows` rows into out, rows of head_size elements.
  void (*merge)(const AttentionArgs&, const float* partials, int64_t parts, int64_t rows,
                int64_t token, int64_t kv_head);
  void (*quantize_heads)(const QuantizeArgs&, int64_t begin, int64_t end);
  // The largest of logits [begin, end) of a row.
  float (*largest)(const LargestArgs&, int64_t row, int64_t begin, int64_t end);
  // The first place of [begin, end) where that value is.
  int64_t (*place)(const LargestArgs&, int64_t row, int64_t begin, int64_t end, float value);
  // `scratch`: draw_scratch() floats of the calling thread's own.
  void (*draw)(const DrawArgs&, int64_t begin, int64_t end, float* scratch);
  // `counts` [vocab]: the calling thread's own, zeros before and after.
  void (*penalise)(const PenaltyArgs&, int64_t begin, int64_t end, int32_t* counts);
};

// static: each instruction set's unit has its own, see table_of_isa.h.

// Elements of a head in scratch memory: whole vectors of any instruction set.
static inline int64_t padded_size(int64_t head_size) { return (head_size + 15) / 16 * 16; }
// Floats of scratch memory that attention() needs.
static inline int64_t attention_scratch(int64_t head_size) {
  const int64_t padded = padded_size(head_size);
  return kAttentionRows * (2 * padded + kAttentionKeys + 1 + 16) + 2 * kAttentionKeys * padded;
}
// Floats of scratch memory that draw() needs: weights, those of one bucket, and sums of blocks.
static inline int64_t draw_scratch(int64_t vocab) { return 2 * vocab + vocab / 256 + 1; }
// A head of a quantized cache: whole numbers from -127 to 127, and behind them their scale, a
// float.
static inline int64_t cached_head_bytes(int64_t head_size) { return head_size + 4; }
// Floats that the partial result of a row takes.
static inline int64_t partial_floats(int64_t head_size) { return head_size + 2; }

const KernelTable& kernels_generic();
#if defined(__x86_64__)
const KernelTable& kernels_avx2();
const KernelTable& kernels_avx_vnni();
const KernelTable& kernels_avx512();
const KernelTable& kernels_avx512_vnni();
const KernelTable& kernels_avx512_bf16();
const KernelTable& kernels_amx();
#elif defined(__aarch64__)
const KernelTable& kernels_neon();
const KernelTable& kernels_neon_dotprod();
const KernelTable& kernels_neon_i8mm();
const KernelTable& kernels_neon_bf16();
#endif

}  // namespace runtime_kernels
