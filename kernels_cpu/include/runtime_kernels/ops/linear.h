// A matrix product for few rows of x: each weight is read from memory once.
//
// The weight is row-major, so an output is a dot product along the row. Blocks of kRows weight
// rows and kColumns rows of x keep their sums in registers. An output's sum runs in one order
// whatever the block it is in, so a row of x gives the same result beside any others.
#pragma once

#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

constexpr int kRows = 4;
constexpr int kColumns = Vec::kRegisters == 32 ? 4 : 2;

template <class T, int R, int C>
inline void dots(const T* weight, const T* x, int64_t k, float (&out)[kColumns][Vec::kWidth]) {
  using D = Dot<T>;
  Vec sums[R][C];
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) sums[r][c] = zero();
  }
  const auto step = [&](int64_t i, auto load) {
    typename D::Operand w[R];
    for (int r = 0; r < R; ++r) w[r] = load(weight + r * k + i);
    for (int c = 0; c < C; ++c) {
      const typename D::Operand value = load(x + c * k + i);
      for (int r = 0; r < R; ++r) sums[r][c] = D::add(w[r], value, sums[r][c]);
    }
  };
  int64_t i = 0;
  for (; i + D::kStep <= k; i += D::kStep) {
    step(i, [](const T* p) { return D::load(p); });
  }
  if (i < k) {
    const int64_t rest = k - i;
    step(i, [rest](const T* p) { return D::load_part(p, rest); });
  }
  for (int r = 0; r < R; ++r) {
    for (int c = 0; c < C; ++c) out[c][r] = sums[r][c].sum();
  }
}

template <class T, int R>
inline void linear_block(const LinearArgs& args, int64_t row) {
  const int64_t k = args.k;
  const T* weight = static_cast<const T*>(args.weight) + row * k;
  const T* bias = static_cast<const T*>(args.bias);
  float sums[kColumns][Vec::kWidth] = {};  // The rows of weight side by side.
  for (int64_t m = 0; m < args.m;) {
    const T* x = static_cast<const T*>(args.x) + m * k;
    const int64_t left = args.m - m;
    int64_t done;
    if (kColumns == 4 && left >= 4) {
      dots<T, R, kColumns>(weight, x, k, sums);
      done = kColumns;
    } else if (left >= 2) {
      dots<T, R, 2>(weight, x, k, sums);
      done = 2;
    } else {
      dots<T, R, 1>(weight, x, k, sums);
      done = 1;
    }
    for (int64_t c = 0; c < done; ++c) {
      Vec sum = Vec::load(sums[c]);
      if (bias != nullptr) sum = sum + load_part(bias + row, R);
      store_part(sum, static_cast<T*>(args.out) + (m + c) * args.n + row, R);
    }
    m += done;
  }
}

template <class T>
void linear_rows(const LinearArgs& args, int64_t begin, int64_t end) {
  int64_t row = begin;
  for (; row + kRows <= end; row += kRows) linear_block<T, kRows>(args, row);
  for (; row < end; ++row) linear_block<T, 1>(args, row);
}

}  // namespace runtime_kernels::RUNTIME_ISA
