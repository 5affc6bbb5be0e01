// A matrix product with a packed weight of any format (packed_layout.h), for few rows and many.
#pragma once

#include "runtime_kernels/ops/packed_blocks.h"
#include "runtime_kernels/ops/packed_floats.h"

namespace runtime_kernels::RUNTIME_ISA {

// Rows of x in a tile: as many as leave registers for a step's weights.
template <PackedFormat kFormat>
constexpr int tokens_in_tile() {
  if (Vec::kRegisters == 32 && kRowVecs == 1) return 8;
  return kFormat == PackedFormat::kFloat32 || kFormat == PackedFormat::kFloat16 ? 6 : 4;
}

template <PackedFormat kFormat, class T, int N>
inline void one_tile(const PackedArgs& args, int64_t group, int64_t token) {
  if constexpr (kFormat == PackedFormat::kInt8) {
    int8_tile<T, N>(args, group, token);
  } else if constexpr (kFormat == PackedFormat::kFloat32) {
    float_tile<float, T, N>(args, group, token);
  } else if constexpr (kFormat == PackedFormat::kBFloat16) {
    float_tile<bf16, T, N>(args, group, token);
  } else if constexpr (kFormat == PackedFormat::kFloat16) {
    float_tile<f16, T, N>(args, group, token);
  } else {
    block_tile<kFormat, T, N>(args, group, token);
  }
}

template <PackedFormat kFormat, class T>
inline void packed_groups(const PackedArgs& args, int64_t begin, int64_t end) {
  // So many rows of x at a time as stay in a core's cache while groups of weights pass.
  constexpr int64_t kPass = 240;
  constexpr int kTokens = tokens_in_tile<kFormat>();
  for (int64_t first = 0; first < args.m; first += kPass) {
    const int64_t last = first + kPass < args.m ? first + kPass : args.m;
    for (int64_t group = begin; group < end; ++group) {
      int64_t token = first;
      for (; token + kTokens <= last; token += kTokens) {
        one_tile<kFormat, T, kTokens>(args, group, token);
      }
      if (kTokens > 4 && token + 4 <= last) {
        one_tile<kFormat, T, 4>(args, group, token);
        token += 4;
      }
      if (token + 2 <= last) {
        one_tile<kFormat, T, 2>(args, group, token);
        token += 2;
      }
      for (; token < last; ++token) one_tile<kFormat, T, 1>(args, group, token);
    }
  }
}

template <class T>
void packed_groups_of(const PackedArgs& args, int64_t begin, int64_t end) {
  switch (args.format) {
    case PackedFormat::kQ4_0: return packed_groups<PackedFormat::kQ4_0, T>(args, begin, end);
    case PackedFormat::kQ4_1: return packed_groups<PackedFormat::kQ4_1, T>(args, begin, end);
    case PackedFormat::kQ5_0: return packed_groups<PackedFormat::kQ5_0, T>(args, begin, end);
    case PackedFormat::kQ5_1: return packed_groups<PackedFormat::kQ5_1, T>(args, begin, end);
    case PackedFormat::kQ8_0: return packed_groups<PackedFormat::kQ8_0, T>(args, begin, end);
    case PackedFormat::kQ4_K: return packed_groups<PackedFormat::kQ4_K, T>(args, begin, end);
    case PackedFormat::kQ5_K: return packed_groups<PackedFormat::kQ5_K, T>(args, begin, end);
    case PackedFormat::kQ6_K: return packed_groups<PackedFormat::kQ6_K, T>(args, begin, end);
    case PackedFormat::kInt8: return packed_groups<PackedFormat::kInt8, T>(args, begin, end);
    case PackedFormat::kFloat32: return packed_groups<PackedFormat::kFloat32, T>(args, begin, end);
    case PackedFormat::kBFloat16: return packed_groups<PackedFormat::kBFloat16, T>(args, begin, end);
    case PackedFormat::kFloat16: return packed_groups<PackedFormat::kFloat16, T>(args, begin, end);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
