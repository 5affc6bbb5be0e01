#define RUNTIME_ISA isa_neon
#include "runtime_kernels/isa/neon.h"
#include "runtime_kernels/vec.h"
#include "runtime_kernels/isa/bytes_neon.h"
#include "runtime_kernels/isa/pairs.h"
// The four above define what the table is made of.
#include "runtime_kernels/table_of_isa.h"

namespace runtime_kernels {

const KernelTable& kernels_neon() {
  static constexpr KernelTable table = RUNTIME_ISA::table_named("neon");
  return table;
}

}  // namespace runtime_kernels
