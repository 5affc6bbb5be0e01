// What the kernel of paged decodes is launched with, and how it divides a request's keys. Pointers
// are the device's; strides count elements.
#pragma once

#include <cstdint>

#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

constexpr int kDecodeRows = 16;    // Query heads of a block, all of one key head.
constexpr int kDecodeKeys = 16;    // Of a warp's round.
constexpr int kDecodeSplits = 64;  // Most parts of a request.
constexpr int kDecodeHeadSize = 256;

struct PagedDecodeArgs {
  DType dtype;               // bfloat16 or float16
  DType cache_dtype;         // dtype, or float8, for which there may be scales
  const void* query;         // [requests, heads, head_size], heads contiguous
  int64_t query_stride;      // From request to request.
  const void* kv_cache;      // [2, blocks, block_size, kv_heads, head_size]
  const int* block_table;    // [requests, ...]
  int64_t table_stride;      // From request to request.
  const int* seq_lens;       // [requests]: keys of each, its token's own among them
  void* out;                 // [requests, heads, head_size]
  float* workspace;          // decode_workspace() numbers; null where splits is 1
  int* counters;             // decode_counters() zeros, which are zeros afterwards; null as well
  const float* key_scale;    // one number, by which float8 keys are multiplied; null: 1
  const float* value_scale;  // the same of values
  int64_t requests, blocks;
  int block_size, heads, kv_heads, head_size;
  int splits;      // Most parts of a request's keys,
  int least_keys;  // of which each but the last has so many at least.
  float scale;
  int window;      // Keys that a token sees, itself among them; 0: all before it.
  float soft_cap;  // Scores become soft_cap tanh(score / soft_cap); 0: they stay.
};

// Query heads of a key head go to so many blocks.
constexpr int decode_tiles(int heads, int kv_heads) {
  return static_cast<int>(ceil_div(heads / kv_heads, kDecodeRows));
}

constexpr int64_t decode_counters(const PagedDecodeArgs& args) {
  return args.requests * args.kv_heads * decode_tiles(args.heads, args.kv_heads);
}

// What a part leaves: sums [rows, head_size], then largest scores and totals [rows, 2]. Numbers
// from one part to the next, a multiple of 4, and to the second of these.
constexpr int64_t decode_totals_at(const PagedDecodeArgs& args) {
  const int group = args.heads / args.kv_heads;
  return int64_t{group < kDecodeRows ? group : kDecodeRows} * args.head_size;
}

constexpr int64_t decode_part(const PagedDecodeArgs& args) {
  return decode_totals_at(args) + 2 * kDecodeRows;
}

constexpr int64_t decode_workspace(const PagedDecodeArgs& args) {
  return decode_counters(args) * args.splits * decode_part(args);
}

// Keys of one part.
struct DecodePart {
  int parts;        // Of the request, those that have keys.
  int start, stop;  // Of this one; the same where it has none.
};

constexpr DecodePart decode_part_of(int length, int window, int splits, int least_keys, int split) {
  const int first = window > 0 && length > window ? length - window : 0, keys = length - first;
  int parts = static_cast<int>(ceil_div(keys, least_keys));
  parts = parts < 1 ? 1 : parts > splits ? splits : parts;
  // Whole rounds, so that only the last part has a ragged one; it may leave fewer parts.
  int share = static_cast<int>(ceil_div(ceil_div(keys, parts), kDecodeKeys)) * kDecodeKeys;
  share = share < kDecodeKeys ? kDecodeKeys : share;
  parts = keys < 1 ? 1 : static_cast<int>(ceil_div(keys, share));
  const int64_t start = first + int64_t{split} * share, stop = start + share;
  return {parts, static_cast<int>(start < length ? start : length),
          static_cast<int>(stop < length ? stop : length)};
}

}  // namespace runtime_kernels_cuda
