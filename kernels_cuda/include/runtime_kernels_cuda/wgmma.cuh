// Matrix products of a warpgroup (wgmma, compute capability 9.0a) with float32 sums in registers.
//
// Operands in shared memory are tiles of 8 rows of 128 bytes, each at a multiple of 1024 bytes,
// with the 16-byte parts of row i permuted by XOR with i: what a tensor map with a swizzle of 128
// bytes writes. See the PTX ISA, "Asynchronous Warpgroup Level Matrix Shared Memory Layout".
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime_kernels_cuda/hopper.cuh"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda::hopper {

// A matrix in shared memory. Of one whose rows run along the summed dimension (K-major), `row_step`
// is the distance in bytes between tiles of 8 rows, and `column_step` is unused. Of one whose rows
// run along the other (MN-major), `row_step` is between tiles of 8 summed elements, `column_step`
// between tiles of 64 of the others.
__device__ __forceinline__ uint64_t matrix_at(const void* shared, int row_step, int column_step) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | static_cast<uint64_t>((shared_address(shared) & 0x3ffff) >> 4) |
         static_cast<uint64_t>(column_step >> 4) << 16 | static_cast<uint64_t>(row_step >> 4) << 32;
}

// The same matrix from `bytes` further on, a multiple of 16.
__device__ __forceinline__ uint64_t advance(uint64_t matrix, int bytes) {
  return matrix + static_cast<uint64_t>(bytes >> 4);
}

// Before the first product of a series, once registers that it takes were written.
__device__ __forceinline__ void begin_products() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
// Those since the last call are a group.
__device__ __forceinline__ void commit_products() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until no more than `Pending` groups, the last ones, are under way.
template <int Pending>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}
// Keeps the compiler from moving uses of sums across this place.
template <int N>
__device__ __forceinline__ void pin(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

#define RUNTIME_ACC8(d, i)                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define RUNTIME_ACC32(d, i) \
  RUNTIME_ACC8(d, i), RUNTIME_ACC8(d, i + 8), RUNTIME_ACC8(d, i + 16), RUNTIME_ACC8(d, i + 24)
#define RUNTIME_ACC64(d, i) RUNTIME_ACC32(d, i), RUNTIME_ACC32(d, i + 32)

#define RUNTIME_TEXT32                                                     \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define RUNTIME_TEXT64                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// `b` K-major in shared memory, `a` too; the sums are set where keep is 0.
#define RUNTIME_SHARED_64(TYPE)                                                        \
  asm volatile(                                                                        \
      "{\n.reg .pred keep;\nsetp.ne.b32 keep, %66, 0;\n"                               \
      "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {" RUNTIME_TEXT64 \
      "}, %64, %65, keep, 1, 1, 0, 0;\n}\n"                                            \
      : RUNTIME_ACC64(d, 0)                                                            \
      : "l"(a), "l"(b), "r"(keep))

// `a` in registers, `b` MN-major in shared memory.
#define RUNTIME_REGISTERS(TYPE, SHAPE, TEXT, ACC, A0, A1, A2, A3, B)                           \
  asm volatile("wgmma.mma_async.sync.aligned." SHAPE ".f32." TYPE "." TYPE " {" TEXT "}, {" A0 \
               ", " A1 ", " A2 ", " A3 "}, " B ", 1, 1, 1, 1;\n"                               \
               : ACC                                                                           \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

// d[64, 128] = a[64, 16] b[128, 16]^T, or += with keep. Thread t has of n = 0..15 and rows
// r = 16 (t / 32) + t % 32 / 4 and r + 8 columns c = 8 n + 2 (t % 4) and c + 1:
// d[4 n + {0, 1}] of row r, d[4 n + {2, 3}] of row r + 8.
template <typename T>
__device__ __forceinline__ void product(float (&d)[64], uint64_t a, uint64_t b, int keep) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    RUNTIME_SHARED_64("bf16");
  } else {
    RUNTIME_SHARED_64("f16");
  }
}

// d[64, 2 N] += a[64, 16] b[16, 2 N]. Of `a`, a thread has what two adjacent n of sums d are
// rounded to: columns c, c + 1 of row r, of row r + 8, then columns c + 8, c + 9 of both.
template <typename T, int N>
__device__ __forceinline__ void product(float (&d)[N], const uint32_t (&a)[4], uint64_t b) {
  static_assert(N == 32 || N == 64);
  constexpr bool kBrain = std::is_same_v<T, BFloat16>;
  if constexpr (N == 64 && kBrain) {
    RUNTIME_REGISTERS("bf16", "m64n128k16", RUNTIME_TEXT64, RUNTIME_ACC64(d, 0), "%64", "%65",
                      "%66", "%67", "%68");
  } else if constexpr (N == 64) {
    RUNTIME_REGISTERS("f16", "m64n128k16", RUNTIME_TEXT64, RUNTIME_ACC64(d, 0), "%64", "%65", "%66",
                      "%67", "%68");
  } else if constexpr (kBrain) {
    RUNTIME_REGISTERS("bf16", "m64n64k16", RUNTIME_TEXT32, RUNTIME_ACC32(d, 0), "%32", "%33", "%34",
                      "%35", "%36");
  } else {
    RUNTIME_REGISTERS("f16", "m64n64k16", RUNTIME_TEXT32, RUNTIME_ACC32(d, 0), "%32", "%33", "%34",
                      "%35", "%36");
  }
}

#undef RUNTIME_REGISTERS
#undef RUNTIME_SHARED_64
#undef RUNTIME_TEXT64
#undef RUNTIME_TEXT32
#undef RUNTIME_ACC64
#undef RUNTIME_ACC32
#undef RUNTIME_ACC8

}  // namespace runtime_kernels_cuda::hopper
