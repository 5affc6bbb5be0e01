// Weights in blocks: GGUF's block types, and whole rows of int8 (channels), packed for kernels.
//
// Rows of a weight are packed sixteen together, so that a vector's lanes are rows and a sum needs
// no addition across lanes. A group of sixteen rows is a sequence of chunks along k; a chunk is
//
//   header   scales: d as float16 for each row; then, by format, minima m as float16, and for
//            two-level formats the whole-number factors of each sub-block, a byte for each row
//   quants   for each sub-block of 32 elements: eight vectors of 64 bytes (16 rows x 4 elements),
//            two in one where they are nibbles; then vectors of the fifth, or fifth and sixth, bits
//
// Numbers are GGUF's own, bit for bit: packing moves them and changes none. A weight is d * (q -
// offset) or d * q + m, two-level ones d * factor * (q - offset) or d * factor * q - m * minimum.
// The block types are described in ggml's documentation of the GGUF format.
#pragma once

#include <cstdint>

namespace runtime_kernels {

enum class BlockFormat : int32_t { kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ4_K, kQ5_K, kQ6_K, kInt8 };

constexpr int64_t kGroupRows = 16;
constexpr int64_t kSubBlock = 32;

struct BlockShape {
  const char* name;
  int bits;
  int offset;          // What is taken from q where the format has no minima.
  bool has_minima;
  int sub_blocks;      // Of 32 elements in a chunk; 0: the chunk is the whole row (int8).
  int factors;         // Factors of a row in a chunk, 0 where there is one level.
  int64_t row_bytes;   // Of a row of a chunk as GGUF stores it; for int8, of 32 elements.
};

static constexpr BlockShape kBlockShapes[] = {
    {"q4_0", 4, 8, false, 1, 0, 18},   {"q4_1", 4, 0, true, 1, 0, 20},
    {"q5_0", 5, 16, false, 1, 0, 22},  {"q5_1", 5, 0, true, 1, 0, 24},
    {"q8_0", 8, 128, false, 1, 0, 34}, {"q4_K", 4, 0, true, 8, 8, 144},
    {"q5_K", 5, 0, true, 8, 8, 176},   {"q6_K", 6, 32, false, 8, 16, 210},
    {"int8", 8, 128, false, 0, 0, 32},
};
constexpr int kBlockFormats = sizeof kBlockShapes / sizeof kBlockShapes[0];

static constexpr BlockShape shape_of(BlockFormat format) {
  return kBlockShapes[static_cast<int>(format)];
}

// Bytes of a sub-block's quants in a group.
static constexpr int64_t quant_bytes(BlockShape shape) {
  return shape.bits == 8 ? 512 : 256 + (shape.bits - 4) * 64;
}
// Bytes of a chunk's header in a group. int8 has its scales (float32) behind the quants.
static constexpr int64_t header_bytes(BlockShape shape) {
  if (shape.sub_blocks == 0) return 0;
  const int64_t halves = shape.has_minima ? 2 : 1;
  const int64_t minima = shape.factors > 0 && shape.has_minima ? shape.factors : 0;
  return kGroupRows * (2 * halves + shape.factors + minima);
}
// Bytes of a group of rows of k elements; k is a whole number of chunks.
static constexpr int64_t group_bytes(BlockShape shape, int64_t k) {
  const int64_t quants = k / kSubBlock * quant_bytes(shape);
  if (shape.sub_blocks == 0) return quants + kGroupRows * 4;
  return quants + k / (kSubBlock * shape.sub_blocks) * header_bytes(shape);
}
static constexpr int64_t chunk_elements(BlockShape shape) {
  return kSubBlock * (shape.sub_blocks > 0 ? shape.sub_blocks : 1);
}

// A row of x in whole numbers: what block_quantize() writes for each 32 elements. The quads that
// the instruction set's kernels read lie elsewhere.
struct QuantScale {
  float scale;      // x = scale * whole number
  float sum;        // scale * sum of the whole numbers
  int32_t half[2];  // Sums of the first and the last sixteen whole numbers.
};

}  // namespace runtime_kernels
