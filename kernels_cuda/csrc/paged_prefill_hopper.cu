#include "launchers.h"
#include "runtime_kernels_cuda/paged_prefill_hopper.cuh"
#include "tensor_map.h"

namespace runtime_kernels_cuda {

bool paged_prefill_hopper_takes(const PagedPrefillArgs& args) {
  constexpr int kMajor = 9;
  const int page = args.block_size;
  return device_attribute<cudaDevAttrComputeCapabilityMajor>() == kMajor &&
         (args.head_size == 64 || args.head_size == 128) && page >= 8 && (page & (page - 1)) == 0 &&
         args.query_stride % 8 == 0 && aligned(args.query) && aligned(args.kv_cache) &&
         aligned(args.out);
}

Error paged_prefill_hopper(const PagedPrefillArgs& args, Stream stream) {
  using hopper::kKeys;
  using hopper::kRows;
  const uint64_t size = args.head_size, halves = size / 64, heads = args.heads;
  const uint64_t kv_heads = args.kv_heads, tokens = args.tokens, page = args.block_size;
  const uint64_t slot = kv_heads * size, query_stride = args.query_stride;
  CUtensorMap query_map, cache_map;
  // Columns, tokens, parts of 64 columns, heads.
  const TensorMapArgs query{args.dtype,
                            args.query,
                            4,
                            {64, tokens, halves, heads},
                            {1, query_stride, 64, size},
                            {64, kRows, static_cast<uint32_t>(halves), 1}};
  // Columns, slots of a group, parts of 64 columns, heads, groups of 8 slots.
  const TensorMapArgs cache{args.dtype,
                            args.kv_cache,
                            5,
                            {64, 8, halves, kv_heads, 2 * args.blocks * page / 8},
                            {1, slot, 64, size, 8 * slot},
                            {64, 8, static_cast<uint32_t>(halves), 1,
                             static_cast<uint32_t>(min(page, uint64_t{kKeys}) / 8)}};
  Error error = make_tensor_map(query, &query_map);
  if (error == cudaSuccess) error = make_tensor_map(cache, &cache_map);
  if (error != cudaSuccess) return error;
  const auto run = [&](auto type) {
    using T = decltype(type);
    return args.head_size == 64
               ? hopper::launch_paged_prefill<T, 64>(query_map, cache_map, args, stream)
               : hopper::launch_paged_prefill<T, 128>(query_map, cache_map, args, stream);
  };
  return args.dtype == DType::kBFloat16 ? run(BFloat16{}) : run(Float16{});
}

}  // namespace runtime_kernels_cuda
