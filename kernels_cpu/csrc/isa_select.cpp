#include "isa_select.h"

#include <atomic>
#include <vector>

namespace runtime_kernels {
namespace {

// Tables that this machine can run, narrowest first.
std::vector<const KernelTable*> runnable() {
  std::vector<const KernelTable*> tables{&kernels_generic()};
#if defined(__x86_64__)
  // These also ask whether the system saves the wide registers.
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
      __builtin_cpu_supports("f16c")) {
    tables.push_back(&kernels_avx2());
    if (__builtin_cpu_supports("avxvnni")) tables.push_back(&kernels_avx_vnni());
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
      tables.push_back(&kernels_avx512());
      if (__builtin_cpu_supports("avx512vnni")) {
        tables.push_back(&kernels_avx512_vnni());
        if (__builtin_cpu_supports("avx512bf16")) tables.push_back(&kernels_avx512_bf16());
      }
    }
  }
#endif
  return tables;
}

std::atomic<const KernelTable*>& chosen() {
  static std::atomic<const KernelTable*> table{runnable().back()};
  return table;
}

}  // namespace

const KernelTable& kernels() { return *chosen().load(std::memory_order_relaxed); }

std::string available_isas() {
  std::string names;
  for (const KernelTable* table : runnable()) {
    if (!names.empty()) names += ' ';
    names += table->name;
  }
  return names;
}

bool select_isa(const std::string& name) {
  for (const KernelTable* table : runnable()) {
    if (name == table->name) {
      chosen().store(table);
      return true;
    }
  }
  return false;
}

}  // namespace runtime_kernels
