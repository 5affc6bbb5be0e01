// Plain functions that queue kernels on a stream: one a file, over the header of its name.
// They report a failure to launch; what is wrong with arguments, their callers have checked.
#pragma once

#include "runtime_kernels_cuda/args.h"
#include "runtime_kernels_cuda/device.h"
#include "runtime_kernels_cuda/paged_decode_args.h"
#include "runtime_kernels_cuda/paged_prefill_args.h"
#include "runtime_kernels_cuda/sampling_args.h"

namespace runtime_kernels_cuda {

Error copy_blocks(const CopyBlocksArgs& args, Stream stream);
Error draw(const DrawArgs& args, Stream stream);
Error gate(const GateArgs& args, Stream stream);
Error largest(const LargestArgs& args, Stream stream);
Error linear(const LinearArgs& args, Stream stream);
Error paged_decode(const PagedDecodeArgs& args, Stream stream);
bool paged_prefill_hopper_takes(const PagedPrefillArgs& args);
Error paged_prefill_hopper(const PagedPrefillArgs& args, Stream stream);
Error penalties(const PenaltyArgs& args, Stream stream);
Error rms_norm(const RmsNormArgs& args, Stream stream);
Error rotary(const RotaryArgs& args, Stream stream);

}  // namespace runtime_kernels_cuda
