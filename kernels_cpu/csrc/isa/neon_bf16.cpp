#define RUNTIME_ISA isa_neon_bf16
#include "runtime_kernels/isa/neon.h"
#include "runtime_kernels/vec.h"
#include "runtime_kernels/isa/bytes_neon.h"
#include "runtime_kernels/isa/neon_bf16_dot.h"
// The four above define what the table is made of.
#include "runtime_kernels/table_of_isa.h"

namespace runtime_kernels {

const KernelTable& kernels_neon_bf16() {
  static constexpr KernelTable table = RUNTIME_ISA::table_named("neon_bf16");
  return table;
}

}  // namespace runtime_kernels
