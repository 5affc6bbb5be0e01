#define RUNTIME_ISA isa_avx2
#include "runtime_kernels/isa/avx2.h"
#include "runtime_kernels/vec.h"
#include "runtime_kernels/isa/bytes_avx2.h"
#include "runtime_kernels/isa/pairs.h"
// The four above define what the table is made of.
#include "runtime_kernels/table_of_isa.h"

namespace runtime_kernels {

const KernelTable& kernels_avx2() {
  static constexpr KernelTable table = RUNTIME_ISA::table_named("avx2");
  return table;
}

}  // namespace runtime_kernels
