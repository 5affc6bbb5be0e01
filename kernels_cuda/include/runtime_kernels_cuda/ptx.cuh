// Instructions that the language has no name for, from compute capability 8.0 on: copies to shared
// memory that are not waited for, and the tensor cores' tiles. See the PTX ISA for each.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {

constexpr float kLog2E = 1.4426950408889634f;

// Memory of a block whose size its launch says, at a multiple of 16 bytes.
__device__ __forceinline__ char* dynamic_shared() {
  extern __shared__ uint4 dynamic_memory[];
  return reinterpret_cast<char*>(dynamic_memory);
}

__device__ __forceinline__ float fast_exp2(float x) {
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
  return result;
}

// Copies 16 bytes to shared memory, or zeros where `there` is false.
__device__ __forceinline__ void start_copy(void* to, const void* from, bool there) {
  const auto target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// All groups of this thread but the last `behind` have arrived.
template <int behind>
__device__ __forceinline__ void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(behind) : "memory");
}

// c[0..3] += a b for a [16, 16] and b [16, 8], rows and columns as the instruction has them.
template <typename T>
__device__ __forceinline__ void multiply(float* c, uint32_t a0, uint32_t a1, uint32_t a2,
                                         uint32_t a3, uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  } else {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
        "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  }
}

// Four matrices of 8 x 8 elements of two bytes: lane l gives the address of row l % 8 of matrix
// l / 8, 16 bytes; it receives of each row l / 4, columns 2 (l % 4) and the next.
__device__ __forceinline__ void load_matrices(uint32_t (&m)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(from)
               : "memory");
}

// The same, but it receives of each column l / 4, rows 2 (l % 4) and the next.
__device__ __forceinline__ void load_columns(uint32_t (&m)[4], const void* row) {
  const auto from = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(from)
               : "memory");
}

}  // namespace runtime_kernels_cuda
