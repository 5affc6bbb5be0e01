// Element types that kernels read and write, and their conversions in plain C++.
#pragma once

#include <cstdint>
#include <cstring>

namespace runtime_kernels {

enum class DType { kFloat32, kBFloat16, kFloat16 };

constexpr int64_t element_bytes(DType dtype) { return dtype == DType::kFloat32 ? 4 : 2; }

struct bf16 {
  uint16_t bits;
};

struct f16 {
  uint16_t bits;
};

}  // namespace runtime_kernels
