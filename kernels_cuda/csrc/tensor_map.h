// Descriptions of arrays in device memory, of which Hopper's copy engine copies boxes.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "runtime_kernels_cuda/device.h"
#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

struct TensorMapArgs {
  DType dtype;        // bfloat16 or float16
  const void* array;  // At a multiple of 16 bytes.
  int dims;           // 5 at most; the first is that of adjacent elements.
  uint64_t size[5];
  uint64_t stride[5];  // In elements, multiples of 8; the first is 1.
  uint32_t box[5];     // The first is 64 elements: the box's rows are swizzled by 128 bytes.
};

Error make_tensor_map(const TensorMapArgs& args, CUtensorMap* map);

}  // namespace runtime_kernels_cuda
