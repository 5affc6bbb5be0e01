// Element types, for kernels and for those who launch them.
#pragma once

#include <cstdint>

namespace runtime_kernels_cuda {

enum class DType : int { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2, kFloat8E4M3 = 3 };

constexpr int element_bytes(DType type) {
  return type == DType::kFloat32 ? 4 : type == DType::kFloat8E4M3 ? 1 : 2;
}

// For accesses of 16 bytes.
inline bool aligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace runtime_kernels_cuda
