// A group of sixteen weight rows to the packed layout (packed_layout.h), and a row's values back.
#pragma once

#include <cstdint>

#include "runtime_kernels/packed_layout.h"

namespace runtime_kernels {

// Bytes of a row of k elements as it is stored: GGUF's blocks; a float32 scale and k signed bytes
// for int8; the elements of a float format.
int64_t stored_row_bytes(PackedShape shape, int64_t k);

// Pack `rows` (up to sixteen) stored rows of k elements into group_bytes() of padded_width(k).
void pack_group(PackedFormat format, const uint8_t* stored, int64_t rows, int64_t k, uint8_t* out);

// The values of one row of a packed weight: `width` (padded) floats.
void row_values(PackedFormat format, const uint8_t* weight, int64_t row, int64_t width, float* out);

}  // namespace runtime_kernels
