// A matrix product with a packed weight of any format (packed_layout.h), for few rows and many.
#pragma once

#include "runtime_kernels/ops/packed_blocks.h"
#include "runtime_kernels/ops/packed_floats.h"
#include "runtime_kernels/ops/packed_panels.h"

namespace runtime_kernels::RUNTIME_ISA {

// Rows of x in a tile: as many as leave registers for a step's weights.
template <PackedFormat kFormat>
constexpr int tokens_in_tile() {
  if (Vec::kRegisters == 32 && kRowVecs == 1) return 8;
  return kFormat == PackedFormat::kFloat32 || kFormat == PackedFormat::kFloat16 ? 6 : 4;
}

template <PackedFormat kFormat, class T, int N>
inline void one_tile(const PackedArgs& args, int64_t group, int64_t token, Place<N>) {
  const uint8_t* p = args.weight + group * group_bytes(shape_of(kFormat), args.k);
  if constexpr (kFormat == PackedFormat::kInt8) {
    int8_tile<T, N>(args, group, token);
  } else if constexpr (kFormat == PackedFormat::kFloat32) {
    float_tile<float, T, N>(args, group, token, p);
  } else if constexpr (kFormat == PackedFormat::kBFloat16) {
    float_tile<bf16, T, N>(args, group, token, p);
  } else if constexpr (kFormat == PackedFormat::kFloat16) {
    float_tile<f16, T, N>(args, group, token, p);
  } else if constexpr (blocks_as_floats(kFormat)) {
    byte_tile<T, N>(args, group, token);
  } else {
    block_tile<kFormat, T, N>(args, group, token);
  }
}

// Call tile(token, Place<N>) for tokens [first, last), kTokens at a time.
template <int kTokens, class F>
inline void for_tiles(int64_t first, int64_t last, F tile) {
  int64_t token = first;
  for (; token + kTokens <= last; token += kTokens) tile(token, Place<kTokens>{});
  if (kTokens > 4 && token + 4 <= last) {
    tile(token, Place<4>{});
    token += 4;
  }
  if (token + 2 <= last) {
    tile(token, Place<2>{});
    token += 2;
  }
  for (; token < last; ++token) tile(token, Place<1>{});
}

// A tile with a group's weights as a float panel.
template <class T, int N>
inline void panel_tile(const PackedArgs& args, int64_t group, int64_t token, const float* panel,
                       Place<N>) {
  float_tile<float, T, N>(args, group, token, reinterpret_cast<const uint8_t*>(panel));
}

template <PackedFormat kFormat, class T>
inline void packed_groups(const PackedArgs& args, int64_t begin, int64_t end, float* panel) {
  // So many rows of x at a time as stay in a core's cache while groups of weights pass.
  constexpr int64_t kPass = 240;
  for (int64_t first = 0; first < args.m; first += kPass) {
    const int64_t last = first + kPass < args.m ? first + kPass : args.m;
    for (int64_t group = begin; group < end; ++group) {
      if constexpr (has_panels(kFormat)) {
        if (panel != nullptr) {
          const int64_t bytes = group_bytes(shape_of(kFormat), args.k);
          widen_group<kFormat>(args.weight + group * bytes, args.k, panel);
          for_tiles<tokens_in_tile<PackedFormat::kFloat32>()>(
              first, last,
              [&](int64_t token, auto n) { panel_tile<T>(args, group, token, panel, n); });
          continue;
        }
      }
      for_tiles<tokens_in_tile<kFormat>()>(
          first, last, [&](int64_t token, auto n) { one_tile<kFormat, T>(args, group, token, n); });
    }
  }
}

template <class T>
void packed_groups_of(const PackedArgs& args, int64_t begin, int64_t end, float* panel) {
  switch (args.format) {
    case PackedFormat::kQ4_0:
      return packed_groups<PackedFormat::kQ4_0, T>(args, begin, end, panel);
    case PackedFormat::kQ4_1:
      return packed_groups<PackedFormat::kQ4_1, T>(args, begin, end, panel);
    case PackedFormat::kQ5_0:
      return packed_groups<PackedFormat::kQ5_0, T>(args, begin, end, panel);
    case PackedFormat::kQ5_1:
      return packed_groups<PackedFormat::kQ5_1, T>(args, begin, end, panel);
    case PackedFormat::kQ8_0:
      return packed_groups<PackedFormat::kQ8_0, T>(args, begin, end, panel);
    case PackedFormat::kQ4_K:
      return packed_groups<PackedFormat::kQ4_K, T>(args, begin, end, panel);
    case PackedFormat::kQ5_K:
      return packed_groups<PackedFormat::kQ5_K, T>(args, begin, end, panel);
    case PackedFormat::kQ6_K:
      return packed_groups<PackedFormat::kQ6_K, T>(args, begin, end, panel);
    case PackedFormat::kInt8:
      return packed_groups<PackedFormat::kInt8, T>(args, begin, end, panel);
    case PackedFormat::kFloat32:
      return packed_groups<PackedFormat::kFloat32, T>(args, begin, end, panel);
    case PackedFormat::kBFloat16:
      return packed_groups<PackedFormat::kBFloat16, T>(args, begin, end, panel);
    case PackedFormat::kFloat16:
      return packed_groups<PackedFormat::kFloat16, T>(args, begin, end, panel);
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
