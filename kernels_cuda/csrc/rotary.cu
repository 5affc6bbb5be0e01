#include "launchers.h"
#include "runtime_kernels_cuda/rotary.cuh"

namespace runtime_kernels_cuda {

Error rotary(const RotaryArgs& args, Stream stream) {
  return with_float_type(args.dtype,
                         [&](auto type) { return launch_rotary<decltype(type)>(args, stream); });
}

}  // namespace runtime_kernels_cuda
