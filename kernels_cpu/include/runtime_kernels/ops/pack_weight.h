// GGUF's blocks to and from the packed layout (packed_layout.h), row by row, in plain C++.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime_kernels/packed_layout.h"

namespace runtime_kernels {

constexpr int kMaxChunk = 256;
constexpr int kMaxFactors = 16;

// A row's part of a chunk, as GGUF's numbers.
struct BlockRow {
  uint16_t d, m;                 // float16; m: the minimum, or what the minima's factors multiply.
  uint8_t factors[kMaxFactors];  // Signed ones are stored 128 higher.
  uint8_t minima[kMaxFactors];
  uint8_t q[kMaxChunk];
};

// Read a row's part of a chunk as it is stored (`stored` has shape.row_bytes). Not for int8.
void read_stored(PackedFormat format, const uint8_t* stored, BlockRow* row);

// Put a row's part into a chunk of its group, whose bytes were zero; or get it from there.
void put_row(PackedShape shape, const BlockRow& row, int64_t lane, uint8_t* chunk);
void get_row(PackedShape shape, int64_t lane, const uint8_t* chunk, BlockRow* row);

// The values of a row's part: chunk_elements() floats.
void values_of(PackedShape shape, const BlockRow& row, float* out);

// The value of a float16's or bfloat16's bits.
float half_value(uint16_t bits, bool is_bf16);

// Position of an element's byte in a sub-block's quants.
static inline int64_t quant_at(int64_t lane, int element) { return 4 * lane + element % 4; }

static inline uint8_t get_quant(int bits, const uint8_t* quants, int64_t lane, int element) {
  const int quad = element / 4;
  const int64_t at = quant_at(lane, element);
  if (bits == 8) return quants[64 * quad + at];
  int q = (quants[64 * (quad % 4) + at] >> (quad < 4 ? 0 : 4)) & 15;
  if (bits == 5) q |= ((quants[256 + at] >> quad) & 1) << 4;
  if (bits == 6) q |= ((quants[256 + 64 * (quad / 4) + at] >> (2 * (quad % 4))) & 3) << 4;
  return static_cast<uint8_t>(q);
}

static inline void put_quant(int bits, uint8_t* quants, int64_t lane, int element, int q) {
  const int quad = element / 4;
  const int64_t at = quant_at(lane, element);
  const auto add = [&](int64_t place, int value) {
    quants[place] = static_cast<uint8_t>(quants[place] | value);
  };
  if (bits == 8) return add(64 * quad + at, q);
  add(64 * (quad % 4) + at, (q & 15) << (quad < 4 ? 0 : 4));
  if (bits == 5) add(256 + at, (q >> 4) << quad);
  if (bits == 6) add(256 + 64 * (quad / 4) + at, (q >> 4) << (2 * (quad % 4)));
}

}  // namespace runtime_kernels
