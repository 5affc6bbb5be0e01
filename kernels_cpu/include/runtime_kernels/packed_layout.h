// Weights packed for kernels: floats, GGUF's block types, and rows of int8 with a scale each.
//
// Rows of a weight are packed sixteen together, so that a vector's lanes are rows, a sum needs no
// addition across lanes, and a product reads memory in one stream. Floats are [k][16 rows];
// bfloat16, which is multiplied in pairs, [k / 2][16 rows][2]. For blocks, a group of sixteen rows
// is a sequence of chunks along k; a chunk is
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

enum class PackedFormat : int32_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kInt8,
  kFloat32,
  kBFloat16,
  kFloat16
};

constexpr int64_t kGroupRows = 16;
constexpr int64_t kSubBlock = 32;

struct PackedShape {
  const char* name;
  int bits;
  int offset;  // What is taken from q where the format has no minima.
  bool has_minima;
  int sub_blocks;     // Of 32 elements in a chunk; 0: the chunk is the whole row.
  int factors;        // Factors of a row in a chunk, 0 where there is one level.
  int64_t row_bytes;  // Of a row of a chunk as GGUF stores it; 0 where it is the whole row.
  int together;       // Elements of a row that lie side by side.
};

static constexpr PackedShape kPackedShapes[] = {
    {"q4_0", 4, 8, false, 1, 0, 18, 4},     {"q4_1", 4, 0, true, 1, 0, 20, 4},
    {"q5_0", 5, 16, false, 1, 0, 22, 4},    {"q5_1", 5, 0, true, 1, 0, 24, 4},
    {"q8_0", 8, 128, false, 1, 0, 34, 4},   {"q4_K", 4, 0, true, 8, 8, 144, 4},
    {"q5_K", 5, 0, true, 8, 8, 176, 4},     {"q6_K", 6, 32, false, 8, 16, 210, 4},
    {"int8", 8, 128, false, 0, 0, 0, 4},    {"float32", 32, 0, false, 0, 0, 0, 1},
    {"bfloat16", 16, 0, false, 0, 0, 0, 2}, {"float16", 16, 0, false, 0, 0, 0, 1},
};
constexpr int kPackedFormats = sizeof kPackedShapes / sizeof kPackedShapes[0];

static constexpr PackedShape shape_of(PackedFormat format) {
  return kPackedShapes[static_cast<int>(format)];
}

static constexpr bool is_float(PackedShape shape) { return shape.bits >= 16; }

// Bytes of a sub-block's quants in a group.
static constexpr int64_t quant_bytes(PackedShape shape) {
  return shape.bits == 8 ? 512 : 256 + (shape.bits - 4) * 64;
}
// Bytes of a chunk's header in a group. int8 has its scales (float32) behind the quants.
static constexpr int64_t header_bytes(PackedShape shape) {
  if (shape.sub_blocks == 0) return 0;
  const int64_t halves = shape.has_minima ? 2 : 1;
  const int64_t minima = shape.factors > 0 && shape.has_minima ? shape.factors : 0;
  return kGroupRows * (2 * halves + shape.factors + minima);
}
// Bytes of a group of rows of k elements, as many as padded_width() says.
static constexpr int64_t group_bytes(PackedShape shape, int64_t k) {
  if (is_float(shape)) return k * kGroupRows * shape.bits / 8;
  const int64_t quants = k / kSubBlock * quant_bytes(shape);
  if (shape.sub_blocks == 0) return quants + kGroupRows * 4;
  return quants + k / (kSubBlock * shape.sub_blocks) * header_bytes(shape);
}
// What a row's elements are filled up to a multiple of; only whole-row formats need filling up.
static constexpr int64_t chunk_elements(PackedShape shape) {
  if (is_float(shape)) return shape.together;
  return kSubBlock * (shape.sub_blocks > 0 ? shape.sub_blocks : 1);
}
static constexpr int64_t padded_width(PackedShape shape, int64_t k) {
  return (k + chunk_elements(shape) - 1) / chunk_elements(shape) * chunk_elements(shape);
}

// A row of x in whole numbers: what prepare() writes for each 32 elements. The quads that
// the instruction set's kernels read lie elsewhere.
struct QuantScale {
  float scale;  // x = scale * whole number
  float sum;    // scale * sum of the whole numbers
  // Where the sums of products begin: minus what unsigned weights add, which is their offset times
  // the whole numbers. Of the block; of its halves where a format has factors for them; of the
  // whole row, in its first block, for int8.
  int32_t start[2];
};

}  // namespace runtime_kernels
