// Stands in for the kernels' own ptx.cuh: what its instructions do, by the definitions of the PTX
// ISA. Copies arrive at once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

constexpr float kLog2E = 1.4426950408889634f;

inline char* dynamic_shared() { return reinterpret_cast<char*>(emulated::current().shared.data()); }

inline float fast_exp2(float x) { return std::exp2(x); }

inline void start_copy(void* to, const void* from, bool there) {
  if (there) {
    std::memcpy(to, from, 16);
  } else {
    std::memset(to, 0, 16);
  }
}

inline void end_group() {}

template <int behind>
void wait_for_groups() {}

namespace emulated_tile {

template <typename T>
float element(uint32_t both, int which) {
  const uint16_t bits = static_cast<uint16_t>(both >> (16 * which));
  T value;
  std::memcpy(&value, &bits, sizeof bits);
  return to_float(value);
}

}  // namespace emulated_tile

template <typename T>
void multiply(float* c, uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0,
              uint32_t b1) {
  struct Words {
    uint32_t a[4], b[2];
  };
  const auto all = emulated::show(Words{{a0, a1, a2, a3}, {b0, b1}});
  float a[16][16], b[16][8];
  for (int lane = 0; lane < kWarp; ++lane) {
    const int group = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      const uint32_t word = all.of[lane].a[i];
      for (int e = 0; e < 2; ++e) {
        a[group + i % 2 * 8][pair + i / 2 * 8 + e] = emulated_tile::element<T>(word, e);
      }
    }
    for (int i = 0; i < 2; ++i) {
      const uint32_t word = all.of[lane].b[i];
      for (int e = 0; e < 2; ++e) b[pair + i * 8 + e][group] = emulated_tile::element<T>(word, e);
    }
  }
  const int lane = emulated::current().now->lane;
  for (int i = 0; i < 4; ++i) {
    const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
    for (int k = 0; k < 16; ++k) c[i] += a[row][k] * b[k][column];
  }
}

inline void load_tiles(uint32_t (&m)[4], const void* row, bool columns) {
  const int lane = emulated::current().now->lane;
  const auto rows = emulated::show(static_cast<const char*>(row));
  for (int i = 0; i < 4; ++i) {
    uint16_t both[2];
    for (int e = 0; e < 2; ++e) {
      const int one = lane / 4, other = lane % 4 * 2 + e;
      const int r = columns ? other : one, c = columns ? one : other;
      std::memcpy(&both[e], rows.of[i * 8 + r] + c * 2, 2);
    }
    m[i] = both[0] | uint32_t{both[1]} << 16;
  }
}

inline void load_matrices(uint32_t (&m)[4], const void* row) { load_tiles(m, row, false); }
inline void load_columns(uint32_t (&m)[4], const void* row) { load_tiles(m, row, true); }

}  // namespace runtime_kernels_cuda
