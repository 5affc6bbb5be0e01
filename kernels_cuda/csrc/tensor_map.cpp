#include "tensor_map.h"

namespace runtime_kernels_cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

// The driver's function, asked for at run time: the library is linked without the driver's.
Encode encode_function() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult result;
  constexpr int kVersion = 12000;  // That first had it.
  const Error error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                       kVersion, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) return nullptr;
  return reinterpret_cast<Encode>(function);
}

}  // namespace

Error make_tensor_map(const TensorMapArgs& args, CUtensorMap* map) {
  static const Encode encode = encode_function();
  if (encode == nullptr) return cudaErrorNotSupported;
  const auto type = args.dtype == DType::kBFloat16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                   : CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  cuuint64_t strides[4];
  for (int i = 1; i < args.dims; ++i) strides[i - 1] = args.stride[i] * 2;
  const cuuint64_t* size = reinterpret_cast<const cuuint64_t*>(args.size);
  const cuuint32_t ones[5] = {1, 1, 1, 1, 1};
  const CUresult result =
      encode(map, type, args.dims, const_cast<void*>(args.array), size, strides, args.box, ones,
             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
             CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

}  // namespace runtime_kernels_cuda
