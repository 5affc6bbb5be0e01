// Heads of keys and values as a quantized cache keeps them: bytes, and a scale for each head.
#pragma once

#include <cstring>

#include "runtime_kernels/ops/quantize_rows.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

inline float head_scale(const int8_t* head, int64_t size) {
  float scale;
  std::memcpy(&scale, head + size, sizeof scale);
  return scale;
}

template <class T>
void quantize_heads_of(const QuantizeArgs& args, int64_t begin, int64_t end) {
  const int64_t size = args.head_size;
  for (int64_t head = begin; head < end; ++head) {
    const T* x = static_cast<const T*>(args.x) + head * size;
    int8_t* out = args.out + head * cached_head_bytes(size);
    const float scale = most_of(x, size) / 127.0f;
    const Vec inverse = Vec::set1(scale > 0 ? 1.0f / scale : 0.0f);
    for (int64_t i = 0; i < size; i += Vec::kWidth) {
      const int64_t n = size - i < Vec::kWidth ? size - i : Vec::kWidth;
      const Vec value = n == Vec::kWidth ? Vec::load(x + i) : load_part(x + i, n);
      int8_t whole[Vec::kWidth];
      // The bounds hold for whatever was not a number, too.
      min(max(round(value * inverse), Vec::set1(-127.0f)), Vec::set1(127.0f)).store(whole);
      std::memcpy(out + i, whole, static_cast<size_t>(n));
    }
    std::memcpy(out + size, &scale, sizeof scale);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
