// Registers that hold matrices, for ops/matrix_linear.h: AMX.
#pragma once

#include <immintrin.h>

namespace runtime_kernels::RUNTIME_ISA {

// What `ldtilecfg` reads: the shapes of the eight registers.
struct alignas(64) AmxShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(AmxShapes) == 64);

// Registers 0 to 3 are sums, 4 a block of x, 5 weights; 6 and 7 are those two at a row's end. The
// compiler wants their numbers as literals.
struct Amx {
  static inline void configure(int rows, int tail) {
    AmxShapes shapes;
    for (int i = 0; i < 8; ++i) {
      shapes.rows[i] = static_cast<uint8_t>(rows);
      shapes.row_bytes[i] = 64;
    }
    shapes.rows[5] = 16;
    shapes.rows[6] = static_cast<uint8_t>(tail > 0 ? rows : 0);
    shapes.row_bytes[6] = static_cast<uint16_t>(tail);
    shapes.rows[7] = static_cast<uint8_t>(tail / 4);
    shapes.row_bytes[7] = static_cast<uint16_t>(tail > 0 ? 64 : 0);
    _tile_loadconfig(&shapes);
  }
  static inline void release() { _tile_release(); }

  template <int kBlocks>
  static inline void clear() {
    _tile_zero(0);
    if constexpr (kBlocks > 1) {
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
  }

// x is signed, int8 weights are not.
#define RUNTIME_AMX_BLOCK(sums, x_register, weights_register) \
  _tile_loadd(x_register, x + (sums) * 16 * stride, stride);  \
  if constexpr (kWhole) {                                     \
    _tile_dpbsud(sums, x_register, weights_register);         \
  } else {                                                    \
    _tile_dpbf16ps(sums, x_register, weights_register);       \
  }
#define RUNTIME_AMX_BLOCKS(x_register, weights_register) \
  _tile_loadd(weights_register, weights, 64);            \
  RUNTIME_AMX_BLOCK(0, x_register, weights_register)     \
  if constexpr (kBlocks > 1) {                           \
    RUNTIME_AMX_BLOCK(1, x_register, weights_register)   \
    RUNTIME_AMX_BLOCK(2, x_register, weights_register)   \
    RUNTIME_AMX_BLOCK(3, x_register, weights_register)   \
  }
  template <bool kWhole, bool kTail, int kBlocks>
  static inline void add(const uint8_t* weights, const uint8_t* x, int64_t stride) {
    if constexpr (kTail) {
      RUNTIME_AMX_BLOCKS(6, 7)
    } else {
      RUNTIME_AMX_BLOCKS(4, 5)
    }
  }
#undef RUNTIME_AMX_BLOCKS
#undef RUNTIME_AMX_BLOCK

  template <int kBlocks>
  static inline void store(float* out) {
    _tile_stored(0, out, 64);
    if constexpr (kBlocks > 1) {
      _tile_stored(1, out + 256, 64);
      _tile_stored(2, out + 512, 64);
      _tile_stored(3, out + 768, 64);
    }
  }
};

}  // namespace runtime_kernels::RUNTIME_ISA
