// Operators that attend to the paged KV cache.
#include <torch/csrc/stable/library.h>

#include <optional>

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

// The cache of the queries' head size, and heads that divide.
void check_attended(const Tensor& kv_cache, const Tensor& query) {
  check_device(kv_cache, "kv_cache", query);
  check_dim(kv_cache, "kv_cache", 5);
  check_size(kv_cache, "kv_cache", 0, 2);
  check_size(kv_cache, "kv_cache", 4, query.size(2));
  check_contiguous(kv_cache, "kv_cache");
  const int64_t heads = query.size(1), kv_heads = kv_cache.size(3);
  STD_TORCH_CHECK(kv_heads > 0 && heads % kv_heads == 0, "query has ", heads,
                  " heads, which is no multiple of kv_cache's ", kv_heads);
}

void bound_paged_decode(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,
                        Tensor out, Tensor workspace, Tensor counters, int64_t splits,
                        int64_t least_keys, double scale, int64_t window, double soft_cap,
                        std::optional<Tensor> k_scale, std::optional<Tensor> v_scale) {
  check_cuda(query, "query");
  PagedDecodeArgs args{};
  args.dtype = dtype_of(query, "query");
  STD_TORCH_CHECK(args.dtype != DType::kFloat32, "query must be bfloat16 or float16, not Float");
  args.query_stride = check_heads(query, "query");
  check_like(out, "out", query);
  check_attended(kv_cache, query);
  const bool narrow = kv_cache.scalar_type() == ScalarType::Float8_e4m3fn;
  if (!narrow) check_type(kv_cache, "kv_cache", query.scalar_type());
  args.key_scale = scale_of(k_scale, "k_scale", narrow, query);
  args.value_scale = scale_of(v_scale, "v_scale", narrow, query);
  args.cache_dtype = narrow ? DType::kFloat8E4M3 : args.dtype;
  args.block_table = table_of(block_table, "block_table", 2, query);
  args.seq_lens = table_of(seq_lens, "seq_lens", 1, query);
  args.requests = check_count(query.size(0), "the number of requests");
  check_size(seq_lens, "seq_lens", 0, args.requests);
  check_size(block_table, "block_table", 0, args.requests);
  args.table_stride = block_table.stride(0);
  args.query = query.const_data_ptr();
  args.kv_cache = kv_cache.const_data_ptr();
  args.out = out.mutable_data_ptr();
  args.blocks = kv_cache.size(1);
  args.block_size = static_cast<int>(check_count(kv_cache.size(2), "the block size"));
  args.heads = static_cast<int>(query.size(1));
  args.kv_heads = static_cast<int>(kv_cache.size(3));
  args.head_size = static_cast<int>(query.size(2));
  STD_TORCH_CHECK(args.head_size % 16 == 0 && args.head_size <= kDecodeHeadSize,
                  "the head size must be a multiple of 16 up to ", kDecodeHeadSize, ", not ",
                  args.head_size);
  STD_TORCH_CHECK(aligned(args.kv_cache) && aligned(args.out) && aligned(args.query) &&
                      args.query_stride % 8 == 0,
                  "query, kv_cache and out must be at multiples of 16 bytes");
  STD_TORCH_CHECK(splits >= 1 && splits <= kDecodeSplits, "splits must be from 1 to ",
                  kDecodeSplits, ", not ", splits);
  STD_TORCH_CHECK(least_keys >= 1, "least_keys must be positive, not ", least_keys);
  STD_TORCH_CHECK(window >= 0, "window must not be negative, but is ", window);
  args.splits = static_cast<int>(splits);
  args.least_keys = static_cast<int>(check_count(least_keys, "least_keys"));
  args.scale = static_cast<float>(scale);
  args.window = static_cast<int>(check_count(window, "window"));
  args.soft_cap = static_cast<float>(soft_cap);
  if (splits > 1) {
    const auto check_room = [&](const Tensor& x, const char* name, ScalarType type, int64_t room) {
      check_device(x, name, query);
      check_type(x, name, type);
      check_contiguous(x, name);
      STD_TORCH_CHECK(x.numel() >= room, name, " must have ", room, " elements, not ", x.numel());
    };
    check_room(workspace, "workspace", ScalarType::Float, decode_workspace(args));
    check_room(counters, "counters", ScalarType::Int, decode_counters(args));
    args.workspace = static_cast<float*>(workspace.mutable_data_ptr());
    args.counters = static_cast<int*>(counters.mutable_data_ptr());
    STD_TORCH_CHECK(aligned(args.workspace), "workspace must be at a multiple of 16 bytes");
  }
  if (args.requests == 0) return;
  const Launch launch(query);
  check_launched(paged_decode(args, launch.stream()), "paged_decode");
}

void bound_paged_prefill(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,
                         Tensor query_start_loc, Tensor tile_request, Tensor tile_first, Tensor out,
                         double scale, int64_t window, double soft_cap) {
  check_cuda(query, "query");
  PagedPrefillArgs args{};
  args.dtype = dtype_of(query, "query");
  args.query_stride = check_heads(query, "query");
  check_like(out, "out", query);
  check_attended(kv_cache, query);
  check_type(kv_cache, "kv_cache", query.scalar_type());
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
      "paged_decode(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,"
      " Tensor(a!) out, Tensor(b!) workspace, Tensor(c!) counters, int splits, int least_keys,"
      " float scale, int window, float soft_cap, Tensor? k_scale=None, Tensor? v_scale=None)"
      " -> ()");
  m.def(
      "paged_prefill(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,"
      " Tensor query_start_loc, Tensor tile_request, Tensor tile_first, Tensor(a!) out,"
      " float scale, int window, float soft_cap) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cuda, CUDA, m) {
  m.impl("paged_decode", TORCH_BOX(&runtime_kernels_cuda::bound_paged_decode));
  m.impl("paged_prefill", TORCH_BOX(&runtime_kernels_cuda::bound_paged_prefill));
}
