// What each kernel is launched with. Pointers are the device's; strides count elements.
#pragma once

#include <cstdint>

#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

struct RmsNormArgs {
  DType dtype;
  const void* x;         // [rows, width], as all others but weight
  const void* residual;  // null: none is added
  const void* weight;    // [width]; may be read before earlier work is done
  void* out;             // norm(x + residual) * weight
  void* total;           // x + residual; null without residual
  int64_t rows, width;
  float eps;
};

}  // namespace runtime_kernels_cuda
