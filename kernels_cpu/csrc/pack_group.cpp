#include "runtime_kernels/ops/pack_group.h"

#include <cstring>

#include "runtime_kernels/ops/pack_weight.h"

namespace runtime_kernels {
namespace {

// Where an element of a group's row is, in elements.
int64_t element_at(PackedShape shape, int64_t lane, int64_t element) {
  const int64_t together = shape.together;
  return (element / together * kGroupRows + lane) * together + element % together;
}

int64_t chunk_bytes(PackedShape shape) {
  return header_bytes(shape) + shape.sub_blocks * quant_bytes(shape);
}

void pack_blocks(PackedFormat format, const uint8_t* stored, int64_t rows, int64_t k,
                 uint8_t* out) {
  const PackedShape shape = shape_of(format);
  const int64_t chunks = k / chunk_elements(shape);
  BlockRow row;
  for (int64_t lane = 0; lane < rows; ++lane) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk, stored += shape.row_bytes) {
      read_stored(format, stored, &row);
      put_row(shape, row, lane, out + chunk * chunk_bytes(shape));
    }
  }
}

void pack_int8(PackedShape shape, const uint8_t* stored, int64_t rows, int64_t k, uint8_t* out) {
  const int64_t width = padded_width(shape, k);
  uint8_t* scales = out + width * kGroupRows;
  std::memset(out, 128, static_cast<size_t>(width * kGroupRows));
  for (int64_t lane = 0; lane < rows; ++lane, stored += 4 + k) {
    std::memcpy(scales + 4 * lane, stored, 4);
    for (int64_t e = 0; e < k; ++e) {
      out[element_at(shape, lane, e)] = static_cast<uint8_t>(stored[4 + e] ^ 0x80);
    }
  }
}

// Units of the elements that lie together, copied as one: Unit has their size. The last unit of a
// row may be a part.
template <class Unit>
void pack_units(const uint8_t* stored, int64_t rows, int64_t row_bytes, uint8_t* out) {
  const auto bytes = static_cast<int64_t>(sizeof(Unit));
  for (int64_t at = 0; at < row_bytes; at += bytes) {
    const int64_t left = row_bytes - at, count = left < bytes ? left : bytes;
    for (int64_t lane = 0; lane < rows; ++lane) {
      std::memcpy(out + at * kGroupRows + lane * bytes, stored + lane * row_bytes + at,
                  static_cast<size_t>(count));
    }
  }
}

float float_of(PackedFormat format, const uint8_t* p) {
  if (format == PackedFormat::kFloat32) {
    float value;
    std::memcpy(&value, p, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half_value(bits, format == PackedFormat::kBFloat16);
}

void int8_values(PackedShape shape, const uint8_t* group, int64_t lane, int64_t width, float* out) {
  float scale;
  std::memcpy(&scale, group + width * kGroupRows + 4 * lane, 4);
  for (int64_t e = 0; e < width; ++e) {
    out[e] = scale * static_cast<float>(group[element_at(shape, lane, e)] - shape.offset);
  }
}

}  // namespace

int64_t stored_row_bytes(PackedShape shape, int64_t k) {
  if (is_float(shape)) return k * shape.bits / 8;
  if (shape.sub_blocks == 0) return 4 + k;
  return k / chunk_elements(shape) * shape.row_bytes;
}

void pack_group(PackedFormat format, const uint8_t* stored, int64_t rows, int64_t k, uint8_t* out) {
  const PackedShape shape = shape_of(format);
  std::memset(out, 0, static_cast<size_t>(group_bytes(shape, padded_width(shape, k))));
  switch (format) {
    case PackedFormat::kFloat32:
      return pack_units<uint32_t>(stored, rows, 4 * k, out);
    case PackedFormat::kBFloat16:
      return pack_units<uint32_t>(stored, rows, 2 * k, out);
    case PackedFormat::kFloat16:
      return pack_units<uint16_t>(stored, rows, 2 * k, out);
    case PackedFormat::kInt8:
      return pack_int8(shape, stored, rows, k, out);
    default:
      return pack_blocks(format, stored, rows, k, out);
  }
}

void row_values(PackedFormat format, const uint8_t* weight, int64_t row, int64_t width,
                float* out) {
  const PackedShape shape = shape_of(format);
  const uint8_t* group = weight + row / kGroupRows * group_bytes(shape, width);
  const int64_t lane = row % kGroupRows;
  if (is_float(shape)) {
    for (int64_t e = 0; e < width; ++e) {
      out[e] = float_of(format, group + element_at(shape, lane, e) * (shape.bits / 8));
    }
    return;
  }
  if (shape.sub_blocks == 0) return int8_values(shape, group, lane, width, out);
  BlockRow part;
  for (int64_t e = 0; e < width; e += chunk_elements(shape), group += chunk_bytes(shape)) {
    get_row(shape, lane, group, &part);
    values_of(shape, part, out + e);
  }
}

}  // namespace runtime_kernels
