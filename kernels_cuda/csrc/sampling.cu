#include "launchers.h"
#include "runtime_kernels_cuda/penalties.cuh"
#include "runtime_kernels_cuda/sampling.cuh"

namespace runtime_kernels_cuda {

Error largest(const LargestArgs& args, Stream stream) {
  return with_float_type(args.dtype,
                         [&](auto type) { return launch_largest<decltype(type)>(args, stream); });
}

Error draw(const DrawArgs& args, Stream stream) {
  return with_float_type(args.dtype,
                         [&](auto type) { return launch_draw<decltype(type)>(args, stream); });
}

Error penalties(const PenaltyArgs& args, Stream stream) {
  return with_float_type(args.dtype,
                         [&](auto type) { return launch_penalties<decltype(type)>(args, stream); });
}

}  // namespace runtime_kernels_cuda
