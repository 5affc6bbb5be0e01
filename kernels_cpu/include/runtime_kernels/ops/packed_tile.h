// What tiles of packed products share: sixteen rows' floats, and where they are written.
#pragma once

#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr int kRowVecs = 16 / Vec::kWidth;

// Ask for the bytes that are read some microseconds from now. A tile of many rows of x reads
// weights so slowly that the hardware's own reading ahead stops short.
template <int64_t kBytes>
inline void prefetch_ahead(const uint8_t* p) {
  constexpr int64_t kAhead = 4096, kLine = 64;
  for (int64_t i = 0; i < kBytes; i += kLine) __builtin_prefetch(p + kAhead + i);
}

// Sixteen rows' floats.
struct RowFloats {
  Vec v[kRowVecs];
};

template <class T>
inline void write_rows(const PackedArgs& args, int64_t group, int64_t token,
                       const RowFloats& sums) {
  const int64_t row = group * kGroupRows, left = args.n - row;
  const T* bias = static_cast<const T*>(args.bias);
  T* out = static_cast<T*>(args.out) + token * args.out_stride + row;
  for (int i = 0; i < kRowVecs; ++i) {
    const int64_t first = i * Vec::kWidth;
    const int64_t count = left - first < Vec::kWidth ? left - first : Vec::kWidth;
    if (count <= 0) return;
    Vec sum = sums.v[i];
    if (count == Vec::kWidth) {
      if (bias != nullptr) sum = sum + Vec::load(bias + row + first);
      sum.store(out + first);
    } else {
      if (bias != nullptr) sum = sum + load_part(bias + row + first, count);
      store_part(sum, out + first, count);
    }
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
