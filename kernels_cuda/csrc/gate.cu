#include "launchers.h"
#include "runtime_kernels_cuda/gate.cuh"

namespace runtime_kernels_cuda {

Error gate(const GateArgs& args, Stream stream) {
  return with_float_type(args.dtype,
                         [&](auto type) { return launch_gate<decltype(type)>(args, stream); });
}

}  // namespace runtime_kernels_cuda
