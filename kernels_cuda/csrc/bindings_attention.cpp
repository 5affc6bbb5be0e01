// Operators that attend to the paged KV cache.
#include <torch/csrc/stable/library.h>

#include "checks.h"
#include "launchers.h"

namespace runtime_kernels_cuda {
namespace {

// Index tables of a batch: int32, on the device of the queries.
const int* table_of(const Tensor& x, const char* name, int64_t dim, const Tensor& query) {
  check_device(x, name, query);
  check_dim(x, name, dim);
  check_type(x, name, ScalarType::Int);
  STD_TORCH_CHECK(x.size(dim - 1) <= 1 || x.stride(dim - 1) == 1, name,
                  " must be contiguous in its last dimension");
  return static_cast<const int*>(x.const_data_ptr());
}

void bound_paged_prefill(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,
                         Tensor query_start_loc, Tensor tile_request, Tensor tile_first, Tensor out,
                         double scale, int64_t window, double soft_cap) {
  check_cuda(query, "query");
  PagedPrefillArgs args{};
  args.dtype = dtype_of(query, "query");
  args.query_stride = check_heads(query, "query");
  check_like(out, "out", query);
  check_device(kv_cache, "kv_cache", query);
  check_type(kv_cache, "kv_cache", query.scalar_type());
  check_dim(kv_cache, "kv_cache", 5);
  check_size(kv_cache, "kv_cache", 0, 2);
  check_size(kv_cache, "kv_cache", 4, query.size(2));
  check_contiguous(kv_cache, "kv_cache");
  args.block_table = table_of(block_table, "block_table", 2, query);
  args.seq_lens = table_of(seq_lens, "seq_lens", 1, query);
  args.query_start_loc = table_of(query_start_loc, "query_start_loc", 1, query);
  args.tile_request = table_of(tile_request, "tile_request", 1, query);
  args.tile_first = table_of(tile_first, "tile_first", 1, query);
  const int64_t requests = seq_lens.size(0);
  check_size(query_start_loc, "query_start_loc", 0, requests + 1);
  check_size(block_table, "block_table", 0, requests);
  check_size(tile_first, "tile_first", 0, tile_request.size(0));
  args.table_stride = block_table.stride(0);
  args.query = query.const_data_ptr();
  args.kv_cache = kv_cache.const_data_ptr();
  args.out = out.mutable_data_ptr();
  args.tokens = check_count(query.size(0), "the number of tokens");
  args.blocks = kv_cache.size(1);
  args.tiles = static_cast<int>(check_count(tile_request.size(0), "the number of tiles"));
  args.block_size = static_cast<int>(check_count(kv_cache.size(2), "the block size"));
  args.heads = static_cast<int>(query.size(1));
  args.kv_heads = static_cast<int>(kv_cache.size(3));
  args.head_size = static_cast<int>(query.size(2));
  args.scale = static_cast<float>(scale);
  args.window = static_cast<int>(check_count(window, "window"));
  args.soft_cap = static_cast<float>(soft_cap);
  STD_TORCH_CHECK(window >= 0, "window must not be negative, but is ", window);
  STD_TORCH_CHECK(args.kv_heads > 0 && args.heads % args.kv_heads == 0, "query has ", args.heads,
                  " heads, which is no multiple of kv_cache's ", args.kv_heads);
  if (args.tokens == 0 || args.tiles == 0) return;
  const Launch launch(query);
  STD_TORCH_CHECK(args.dtype != DType::kFloat32 && paged_prefill_hopper_takes(args),
                  "paged_prefill takes bfloat16 or float16, head sizes 64 and 128 (here ",
                  args.head_size, "), blocks of a power of two from 8 on (here ", args.block_size,
                  ") and tensors aligned to 16 bytes, on devices of compute capability 9.0");
  check_launched(paged_prefill_hopper(args, launch.stream()), "paged_prefill");
}

}  // namespace
}  // namespace runtime_kernels_cuda

STABLE_TORCH_LIBRARY_FRAGMENT(runtime_kernels_cuda, m) {
  m.def(
      "paged_prefill(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,"
      " Tensor query_start_loc, Tensor tile_request, Tensor tile_first, Tensor(a!) out,"
      " float scale, int window, float soft_cap) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cuda, CUDA, m) {
  m.impl("paged_prefill", TORCH_BOX(&runtime_kernels_cuda::bound_paged_prefill));
}
