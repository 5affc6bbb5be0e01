// Hopper's own instructions (compute capability 9.0a): barriers in shared memory, copies by tensor
// maps, and the division of registers among warpgroups. See the PTX ISA for each.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "runtime_kernels_cuda/device.h"

namespace runtime_kernels_cuda::hopper {

constexpr int kWarpgroup = 128;  // Threads.

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// An mbarrier. A phase ends when as many have arrived as it was made for and all bytes that were
// announced are there; phases have parities 0, 1, 0, ...
struct Barrier {
  uint64_t word;

  __device__ __forceinline__ void init(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(&word)),
                 "r"(arrivals)
                 : "memory");
  }
  __device__ __forceinline__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(&word))
                 : "memory");
  }
  // Arrive, and announce bytes that copies will bring.
  __device__ __forceinline__ void arrive_for(int bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(&word)),
        "r"(bytes)
        : "memory");
  }
  // Until the phase of this parity has ended; true at once of parity 1 before the first.
  __device__ __forceinline__ void wait(uint32_t parity) {
    uint32_t done;
    do {
      asm volatile(
          "{\n"
          ".reg .pred ended;\n"
          "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
          "selp.u32 %0, 1, 0, ended;\n"
          "}\n"
          : "=r"(done)
          : "r"(shared_address(&word)), "r"(parity)
          : "memory");
    } while (done == 0);
  }
};

// Make initialised barriers known to the copy engine; a barrier of the block must follow.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Order this thread's writes to shared memory before reads by wgmma and the copy engine.
__device__ __forceinline__ void publish_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// A named barrier of the block; 0 is __syncthreads(). `threads` are those who wait or arrive.
__device__ __forceinline__ void sync(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ __forceinline__ void arrive(int barrier, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

__device__ __forceinline__ void prefetch(const CUtensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// Copy a box to shared memory, from coordinates of which the first is that of adjacent elements.
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap& map, Barrier& barrier, int c0,
                                         int c1, int c2, int c3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3)
      : "memory");
}
__device__ __forceinline__ void copy_box(void* to, const CUtensorMap& map, Barrier& barrier, int c0,
                                         int c1, int c2, int c3, int c4) {
  asm volatile(
      "cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes"
      " [%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(shared_address(to)),
      "l"(&map), "r"(shared_address(&barrier)), "r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)
      : "memory");
}

// Registers a thread, for every thread of a warpgroup; a multiple of 8.
template <int Registers>
__device__ __forceinline__ void give_registers_back() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace runtime_kernels_cuda::hopper
