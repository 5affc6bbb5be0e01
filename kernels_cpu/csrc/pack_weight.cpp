#include "runtime_kernels/ops/pack_weight.h"

#define RUNTIME_ISA pack_weight_values
#include "runtime_kernels/isa/generic.h"

namespace runtime_kernels {
namespace {

uint16_t half_at(const uint8_t* p) {
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return bits;
}

// 32 elements: the low nibbles are the first sixteen, the high ones the rest.
void read_nibbles(const uint8_t* p, uint8_t* q) {
  for (int i = 0; i < 16; ++i) {
    q[i] = p[i] & 15;
    q[i + 16] = p[i] >> 4;
  }
}

// Bit i of the word is element i's fifth.
void read_fifth_bits(const uint8_t* p, uint8_t* q) {
  uint32_t bits;
  std::memcpy(&bits, p, 4);
  for (int i = 0; i < 32; ++i) q[i] = static_cast<uint8_t>(q[i] | (((bits >> i) & 1u) << 4));
}

// Eight six-bit factors and eight six-bit minima in twelve bytes.
void read_factors(const uint8_t* p, BlockRow* row) {
  for (int i = 0; i < 4; ++i) {
    row->factors[i] = p[i] & 63;
    row->minima[i] = p[i + 4] & 63;
    row->factors[i + 4] = static_cast<uint8_t>((p[i + 8] & 15) | ((p[i] >> 6) << 4));
    row->minima[i + 4] = static_cast<uint8_t>((p[i + 8] >> 4) | ((p[i + 4] >> 6) << 4));
  }
}

void read_k(const uint8_t* p, bool has_fifth_bits, BlockRow* row) {
  row->d = half_at(p);
  row->m = half_at(p + 2);
  read_factors(p + 4, row);
  const uint8_t* high = p + 16;
  const uint8_t* nibbles = has_fifth_bits ? high + 32 : high;
  for (int e = 0; e < 256; ++e) {
    const int pair = e / 64, i = e % 32;
    const bool second = e % 64 >= 32;
    const int low = second ? nibbles[32 * pair + i] >> 4 : nibbles[32 * pair + i] & 15;
    const int fifth = has_fifth_bits ? (high[i] >> (e / 32)) & 1 : 0;
    row->q[e] = static_cast<uint8_t>(low | (fifth << 4));
  }
}

void read_q6_k(const uint8_t* p, BlockRow* row) {
  const uint8_t *low = p, *high = p + 128, *factors = p + 192;
  row->d = half_at(p + 208);
  for (int i = 0; i < 16; ++i) row->factors[i] = static_cast<uint8_t>(factors[i] ^ 0x80);
  for (int e = 0; e < 256; ++e) {
    const int half = e / 128, quarter = e % 128 / 32, i = e % 32;
    const int nibbles = low[64 * half + 32 * (quarter % 2) + i];
    const int two = (high[32 * half + i] >> (2 * quarter)) & 3;
    row->q[e] = static_cast<uint8_t>((quarter < 2 ? nibbles & 15 : nibbles >> 4) | (two << 4));
  }
}

}  // namespace

float half_value(uint16_t bits, bool is_bf16) {
  return is_bf16 ? RUNTIME_ISA::to_float(bf16{bits}) : RUNTIME_ISA::to_float(f16{bits});
}

void read_stored(PackedFormat format, const uint8_t* p, BlockRow* row) {
  row->d = half_at(p);
  row->m = half_at(p + 2);  // Where the format has none, nobody reads it.
  switch (format) {
    case PackedFormat::kQ4_0:
      return read_nibbles(p + 2, row->q);
    case PackedFormat::kQ4_1:
      return read_nibbles(p + 4, row->q);
    case PackedFormat::kQ5_0:
      read_nibbles(p + 6, row->q);
      return read_fifth_bits(p + 2, row->q);
    case PackedFormat::kQ5_1:
      read_nibbles(p + 8, row->q);
      return read_fifth_bits(p + 4, row->q);
    case PackedFormat::kQ8_0:
      for (int i = 0; i < 32; ++i) row->q[i] = static_cast<uint8_t>(p[2 + i] ^ 0x80);
      return;
    case PackedFormat::kQ4_K:
      return read_k(p, false, row);
    case PackedFormat::kQ5_K:
      return read_k(p, true, row);
    case PackedFormat::kQ6_K:
      return read_q6_k(p, row);
    default:  // Whole rows have no blocks.
      return;
  }
}

void put_row(PackedShape shape, const BlockRow& row, int64_t lane, uint8_t* chunk) {
  std::memcpy(chunk + 2 * lane, &row.d, 2);
  int64_t next = 2 * kGroupRows;
  if (shape.has_minima) {
    std::memcpy(chunk + next + 2 * lane, &row.m, 2);
    next += 2 * kGroupRows;
  }
  for (int i = 0; i < shape.factors; ++i, next += kGroupRows) chunk[next + lane] = row.factors[i];
  if (shape.has_minima) {
    for (int i = 0; i < shape.factors; ++i, next += kGroupRows) chunk[next + lane] = row.minima[i];
  }
  for (int sub = 0; sub < shape.sub_blocks; ++sub, next += quant_bytes(shape)) {
    for (int e = 0; e < kSubBlock; ++e) {
      put_quant(shape.bits, chunk + next, lane, e, row.q[sub * kSubBlock + e]);
    }
  }
}

void get_row(PackedShape shape, int64_t lane, const uint8_t* chunk, BlockRow* row) {
  row->d = half_at(chunk + 2 * lane);
  const int factors = shape.factors < kMaxFactors ? shape.factors : kMaxFactors;
  const uint8_t* next = chunk + 2 * kGroupRows;
  if (shape.has_minima) {
    row->m = half_at(next + 2 * lane);
    next += 2 * kGroupRows;
  }
  for (int i = 0; i < factors; ++i, next += kGroupRows) row->factors[i] = next[lane];
  if (shape.has_minima) {
    for (int i = 0; i < factors; ++i, next += kGroupRows) row->minima[i] = next[lane];
  }
  for (int sub = 0; sub < shape.sub_blocks; ++sub, next += quant_bytes(shape)) {
    for (int e = 0; e < kSubBlock; ++e) {
      row->q[sub * kSubBlock + e] = get_quant(shape.bits, next, lane, e);
    }
  }
}

void values_of(PackedShape shape, const BlockRow& row, float* out) {
  const float d = half_value(row.d, false);
  const float m = shape.has_minima ? half_value(row.m, false) : 0.0f;
  const int64_t elements = chunk_elements(shape);
  for (int64_t e = 0; e < elements; ++e) {
    const auto q = static_cast<float>(row.q[e] - shape.offset);
    if (shape.factors == 0) {
      out[e] = d * q + m;
    } else {
      const int64_t part = e * shape.factors / elements;
      const int factor = row.factors[part] - (shape.has_minima ? 0 : 128);
      const float scaled = d * static_cast<float>(factor) * q;
      out[e] = shape.has_minima ? scaled - m * static_cast<float>(row.minima[part]) : scaled;
    }
  }
}

}  // namespace runtime_kernels
