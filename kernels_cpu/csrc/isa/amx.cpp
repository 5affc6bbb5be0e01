#define RUNTIME_ISA isa_amx
#include "runtime_kernels/isa/avx512.h"
#include "runtime_kernels/vec.h"
#include "runtime_kernels/isa/bytes_avx512.h"
#include "runtime_kernels/isa/avx512_bf16_dot.h"
// The four above define what the table is made of.
#include "runtime_kernels/table_of_isa.h"
// Products of two formats are others.
#include "runtime_kernels/isa/amx.h"
#include "runtime_kernels/ops/matrix_linear.h"

namespace runtime_kernels {

const KernelTable& kernels_amx() {
  static constexpr KernelTable table = RUNTIME_ISA::table_with_matrices<RUNTIME_ISA::Amx>("amx");
  return table;
}

}  // namespace runtime_kernels
