#include "launchers.h"
#include "runtime_kernels_cuda/linear.cuh"

namespace runtime_kernels_cuda {

Error linear(const LinearArgs& args, Stream stream) {
  switch (args.dtype) {
    case DType::kBFloat16:
      return launch_linear<BFloat16>(args, stream);
    case DType::kFloat16:
      return launch_linear<Float16>(args, stream);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace runtime_kernels_cuda
