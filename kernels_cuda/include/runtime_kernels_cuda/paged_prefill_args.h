// What the kernels of paged prefill are launched with. Pointers are the device's; strides count
// elements.
#pragma once

#include <cstdint>

#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

struct PagedPrefillArgs {
  DType dtype;                 // bfloat16 or float16
  const void* query;           // [tokens, heads, head_size], heads contiguous
  int64_t query_stride;        // From token to token.
  const void* kv_cache;        // [2, blocks, block_size, kv_heads, head_size]
  const int* block_table;      // [requests, ...]
  int64_t table_stride;        // From request to request.
  const int* seq_lens;         // [requests]: keys of each, those of this step's tokens among them
  const int* query_start_loc;  // [requests + 1]: each request's first token of this step
  const int* tile_request;     // [tiles]; -1 is no tile
  const int* tile_first;       // [tiles]: the tile's first token, counted in its request
  void* out;                   // [tokens, heads, head_size]
  float* lse;                  // [heads, tokens]: natural logarithms of sums; null: none wanted
  int64_t tokens, blocks;
  int tiles, block_size, heads, kv_heads, head_size;
  float scale;
  int window;      // Keys that a token sees, itself among them; 0: all before it.
  float soft_cap;  // Scores become soft_cap tanh(score / soft_cap); 0: they stay.
};

// Tokens of a tile.
constexpr int paged_prefill_rows(int head_size) { return head_size <= 128 ? 128 : 64; }

}  // namespace runtime_kernels_cuda
