#define RUNTIME_ISA isa_avx512
#include "runtime_kernels/isa/avx512.h"
#include "runtime_kernels/vec.h"
#include "runtime_kernels/isa/bytes_avx512.h"
#include "runtime_kernels/isa/pairs.h"
// The four above define what the table is made of.
#include "runtime_kernels/table_of_isa.h"

namespace runtime_kernels {

const KernelTable& kernels_avx512() {
  static constexpr KernelTable table = RUNTIME_ISA::table_named("avx512");
  return table;
}

}  // namespace runtime_kernels
