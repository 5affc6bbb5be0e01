#include "launchers.h"
#include "runtime_kernels_cuda/copy_blocks.cuh"

namespace runtime_kernels_cuda {

Error copy_blocks(const CopyBlocksArgs& args, Stream stream) {
  const bool wide = args.block_bytes % sizeof(uint4) == 0 && aligned(args.kv_cache);
  return wide ? launch_copy_blocks<uint4>(args, stream)
              : launch_copy_blocks<unsigned char>(args, stream);
}

}  // namespace runtime_kernels_cuda
