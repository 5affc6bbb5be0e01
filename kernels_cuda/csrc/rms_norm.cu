#include "launchers.h"
#include "runtime_kernels_cuda/rms_norm.cuh"

namespace runtime_kernels_cuda {

Error rms_norm(const RmsNormArgs& args, Stream stream) {
  return with_float_type(args.dtype,
                         [&](auto type) { return launch_rms_norm<decltype(type)>(args, stream); });
}

}  // namespace runtime_kernels_cuda
