#include "isa_select.h"

#if defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include <atomic>
#include <vector>

namespace runtime_kernels {
namespace {

#if defined(__aarch64__)

struct ArmFeatures {
  bool dotprod = false, i8mm = false, bf16 = false;
};

#if defined(__APPLE__)
bool reports(const char* name) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value != 0;
}
ArmFeatures arm_features() {
  return {reports("hw.optional.arm.FEAT_DotProd"), reports("hw.optional.arm.FEAT_I8MM"),
          reports("hw.optional.arm.FEAT_BF16")};
}
#elif defined(__linux__)
ArmFeatures arm_features() {
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  return {(first & HWCAP_ASIMDDP) != 0, (second & HWCAP2_I8MM) != 0, (second & HWCAP2_BF16) != 0};
}
#else
ArmFeatures arm_features() { return {}; }
#endif

#endif

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
#elif defined(__aarch64__)
  const ArmFeatures has = arm_features();
  tables.push_back(&kernels_neon());
  if (has.dotprod) {
    tables.push_back(&kernels_neon_dotprod());
    if (has.i8mm) {
      tables.push_back(&kernels_neon_i8mm());
      if (has.bf16) tables.push_back(&kernels_neon_bf16());
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
