// Plain functions that queue kernels on a stream: one a file, over the header of its name.
// They report a failure to launch; what is wrong with arguments, their callers have checked.
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/device.h"

namespace runtime_kernels_cuda {

Error rms_norm(const RmsNormArgs& args, Stream stream);

}  // namespace runtime_kernels_cuda
