#include "launchers.h"
#include "runtime_kernels_cuda/paged_decode.cuh"

namespace runtime_kernels_cuda {

Error paged_decode(const PagedDecodeArgs& args, Stream stream) {
  return args.dtype == DType::kBFloat16 ? launch_paged_decode<BFloat16>(args, stream)
                                        : launch_paged_decode<Float16>(args, stream);
}

}  // namespace runtime_kernels_cuda
