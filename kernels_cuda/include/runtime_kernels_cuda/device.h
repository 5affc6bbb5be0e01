// What the kernels need of the device's language and runtime, in one place: names of types, and
// launches that begin before the kernel in front of them has ended.
#pragma once

#include <cuda_runtime.h>

#include <atomic>

namespace runtime_kernels_cuda {

using Stream = cudaStream_t;
using Error = cudaError_t;

constexpr int kWarp = 32;

// --- Programmatic dependent launch (compute capability 9.0) ---
// A kernel that is launched by launch() may begin while the one in front of it in its stream still
// runs. It may then read what no kernel writes, weights for example, and must call
// wait_for_previous() in every thread before it touches anything else. Kernels in front that know
// nothing of this are waited for like any other.

// Returns when everything in front of this kernel in its stream is done and visible.
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel behind this one begin once all blocks have come here: as soon as there is room.
__device__ __forceinline__ void allow_next() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// A number of the current device that does not change, asked for once. `attribute` is the
// template's, so that each has its own table.
template <cudaDeviceAttr attribute>
int device_attribute() {
  constexpr int kDevices = 64;
  static std::atomic<int> known[kDevices];  // The number plus one; 0 is not asked for yet.
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess || device >= kDevices) return 0;
  if ((value = known[device].load(std::memory_order_relaxed)) == 0) {
    if (cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) return 0;
    known[device].store(++value, std::memory_order_relaxed);
  }
  return value - 1;
}

inline int multiprocessors() { return device_attribute<cudaDevAttrMultiProcessorCount>(); }

// Newer devices run what was compiled for 8.0, which does not wait.
inline bool has_dependent_launch() {
  return device_attribute<cudaDevAttrComputeCapabilityMajor>() == 9;
}

// Queue a kernel that calls wait_for_previous(). Reports what is wrong with the launch itself.
template <typename... Parameters, typename... Arguments>
Error launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
             Stream stream, Arguments... arguments) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return cudaSuccess;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = has_dependent_launch() ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...);
}

}  // namespace runtime_kernels_cuda
