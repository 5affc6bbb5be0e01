#include "isa_select.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__) && defined(__linux__)
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

#if defined(__x86_64__)
// AMX for bfloat16 and int8, and the kernel's leave to use its registers: they are large, so it
// keeps them only for processes that ask.
bool may_use_amx() {
#if defined(__linux__)
  constexpr unsigned kFeatures = 7, kAll = 1u << 22 | 1u << 24 | 1u << 25;  // bf16, tile, int8
  unsigned a, b, c, d;
  if (!__get_cpuid_count(kFeatures, 0, &a, &b, &c, &d) || (d & kAll) != kAll) return false;
  constexpr long kAskLeave = 0x1023, kMatrices = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  return syscall(SYS_arch_prctl, kAskLeave, kMatrices) == 0;
#else
  return false;
#endif
}
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
        if (__builtin_cpu_supports("avx512bf16")) {
          tables.push_back(&kernels_avx512_bf16());
          if (may_use_amx()) tables.push_back(&kernels_amx());
        }
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

// The widest that has run on such a processor: AMX has only been emulated, and is for those who
// ask for it.
const KernelTable* widest() {
  const auto tables = runnable();
#if defined(__x86_64__)
  if (tables.back() == &kernels_amx()) return &kernels_avx512_bf16();
#endif
  return tables.back();
}

std::atomic<const KernelTable*>& chosen() {
  static std::atomic<const KernelTable*> table{widest()};
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
