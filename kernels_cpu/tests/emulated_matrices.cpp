// Matrix registers in plain C++, which refuse what AMX's would: so that products by matrices are
// tried on any machine. All else is the generic kernels'.
#define RUNTIME_ISA isa_emulated_matrices
#include "runtime_kernels/isa/generic.h"
#include "runtime_kernels/vec.h"
#include "runtime_kernels/isa/bytes_generic.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace runtime_kernels::RUNTIME_ISA {

// bfloat16 stays bfloat16 beside pairs of weights, as where hardware multiplies it.
using PairElement = bf16;
struct Pairs {
  Vec first, second;
  static inline Pairs load(const bf16* p) {
    Pairs out;
    split_pairs(p, &out.first, &out.second);
    return out;
  }
};
struct PairValue {
  Vec first, second;
  explicit inline PairValue(const PairElement* x)
      : first(Vec::set1(to_float(x[0]))), second(Vec::set1(to_float(x[1]))) {}
  inline Vec add_to(Pairs w, Vec sum) const {
    return fma(w.second, second, fma(w.first, first, sum));
  }
};
inline void store_elements(Vec x, PairElement* p) { x.store(p); }

}  // namespace runtime_kernels::RUNTIME_ISA

#include "runtime_kernels/table_of_isa.h"
#include "runtime_kernels/ops/matrix_linear.h"

namespace runtime_kernels {
namespace isa_emulated_matrices {
namespace {

void must(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "emulated matrices: %s\n", what);
  std::exit(1);
}

struct Register {
  int rows = 0, row_bytes = 0;
  uint8_t bytes[1024];

  void load(const uint8_t* p, int64_t stride) {
    must(rows > 0 && rows <= 16 && row_bytes > 0 && row_bytes <= 64, "a register has no shape");
    for (int row = 0; row < rows; ++row) {
      std::memcpy(bytes + 64 * row, p + row * stride, static_cast<size_t>(row_bytes));
    }
  }
};

Register sums[4], block[2], weights[2];
bool configured = false;

void multiply(Register& sum, const Register& a, const Register& b, bool whole) {
  must(a.rows == sum.rows && b.row_bytes == sum.row_bytes, "shapes differ from the sums'");
  must(a.row_bytes == 4 * b.rows, "the inner sizes differ");
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < 16; ++j) {
      uint8_t* place = sum.bytes + 64 * i + 4 * j;
      float total;
      int32_t count;
      std::memcpy(&total, place, 4);
      std::memcpy(&count, place, 4);
      for (int k = 0; k < b.rows; ++k) {
        const uint8_t *left = a.bytes + 64 * i + 4 * k, *right = b.bytes + 64 * k + 4 * j;
        for (int e = 0; whole && e < 4; ++e) count += static_cast<int8_t>(left[e]) * right[e];
        for (int e = 0; !whole && e < 2; ++e) {
          bf16 x, w;
          std::memcpy(&x, left + 2 * e, 2);
          std::memcpy(&w, right + 2 * e, 2);
          total += to_float(x) * to_float(w);
        }
      }
      std::memcpy(place, whole ? static_cast<void*>(&count) : &total, 4);
    }
  }
}

struct Emulated {
  static void configure(int rows, int tail) {
    must(tail % 4 == 0 && tail < 64, "no such end of a row");
    for (Register& sum : sums) sum.rows = rows, sum.row_bytes = 64;
    block[0].rows = rows, block[0].row_bytes = 64;
    weights[0].rows = 16, weights[0].row_bytes = 64;
    block[1].rows = tail > 0 ? rows : 0, block[1].row_bytes = tail;
    weights[1].rows = tail / 4, weights[1].row_bytes = 64;
    configured = true;
  }
  static void release() { configured = false; }
  template <int kBlocks>
  static void clear() {
    must(configured, "not configured");
    for (int i = 0; i < kBlocks; ++i) std::memset(sums[i].bytes, 0, sizeof sums[i].bytes);
  }
  template <bool kWhole, bool kTail, int kBlocks>
  static void add(const uint8_t* w, const uint8_t* x, int64_t stride) {
    must(configured, "not configured");
    weights[kTail].load(w, 64);
    for (int i = 0; i < kBlocks; ++i) {
      block[kTail].load(x + i * 16 * stride, stride);
      multiply(sums[i], block[kTail], weights[kTail], kWhole);
    }
  }
  template <int kBlocks>
  static void store(float* out) {
    for (int i = 0; i < kBlocks; ++i) {
      for (int row = 0; row < sums[i].rows; ++row) {
        std::memcpy(out + 256 * i + 16 * row, sums[i].bytes + 64 * row, 64);
      }
    }
  }
};

}  // namespace
}  // namespace isa_emulated_matrices

const KernelTable& kernels_emulated_matrices() {
  static constexpr KernelTable table =
      RUNTIME_ISA::table_with_matrices<RUNTIME_ISA::Emulated>("emulated_matrices");
  return table;
}

}  // namespace runtime_kernels
