// Operators on the paged KV cache, and rotary embedding, which writes to it.
#include <torch/csrc/stable/library.h>

#include <optional>

#include "checks.h"
#include "launchers.h"

namespace runtime_kernels_cuda {
namespace {

void check_cache(const Tensor& kv_cache, const char* name) {
  check_dim(kv_cache, name, 5);
  check_size(kv_cache, name, 0, 2);
  check_contiguous(kv_cache, name);
}

// Where a kernel puts keys and values: what of its arguments follows from the cache.
void set_cache(RotaryArgs& args, const Tensor& key, const Tensor& value, const Tensor& kv_cache,
               const Tensor& slot_mapping, const std::optional<Tensor>& k_scale,
               const std::optional<Tensor>& v_scale) {
  args.key_stride = check_heads(key, "key");
  check_device(value, "value", key);
  check_type(value, "value", key.scalar_type());
  args.value_stride = check_heads(value, "value");
  for (int64_t d = 0; d < 3; ++d) check_size(value, "value", d, key.size(d));
  check_device(kv_cache, "kv_cache", key);
  check_cache(kv_cache, "kv_cache");
  check_size(kv_cache, "kv_cache", 3, key.size(1));
  check_size(kv_cache, "kv_cache", 4, key.size(2));
  check_vector(slot_mapping, "slot_mapping", ScalarType::Long, key.size(0), key);
  const bool narrow = kv_cache.scalar_type() == ScalarType::Float8_e4m3fn;
  if (!narrow) check_type(kv_cache, "kv_cache", key.scalar_type());
  args.key_scale = scale_of(k_scale, "k_scale", narrow, key);
  args.value_scale = scale_of(v_scale, "v_scale", narrow, key);
  args.dtype = dtype_of(key, "key");
  args.cache_dtype = narrow ? DType::kFloat8E4M3 : args.dtype;
  args.key = key.const_data_ptr();
  args.value = value.const_data_ptr();
  args.keys = kv_cache.mutable_data_ptr();
  args.known_slots = kv_cache.size(1) * kv_cache.size(2);
  args.tokens = check_count(key.size(0), "the number of tokens");
  args.kv_heads = static_cast<int>(key.size(1));
  args.head_size = static_cast<int>(key.size(2));
  const int64_t half = args.known_slots * args.kv_heads * args.head_size;
  args.values = static_cast<char*>(args.keys) + half * element_bytes(args.cache_dtype);
  args.slots = static_cast<const int64_t*>(slot_mapping.const_data_ptr());
}

// What of them follows from the queries and the table of angles.
void set_rotation(RotaryArgs& args, const Tensor& query, const Tensor& key, const Tensor& positions,
                  const Tensor& cos_sin_cache, const Tensor& query_out) {
  args.query_stride = check_heads(query, "query");
  check_device(query, "query", key);
  check_type(query, "query", key.scalar_type());
  check_size(query, "query", 0, key.size(0));
  check_size(query, "query", 2, key.size(2));
  check_vector(positions, "positions", ScalarType::Long, key.size(0), key);
  check_device(cos_sin_cache, "cos_sin_cache", key);
  check_dim(cos_sin_cache, "cos_sin_cache", 2);
  check_type(cos_sin_cache, "cos_sin_cache", key.scalar_type());
  check_contiguous(cos_sin_cache, "cos_sin_cache");
  const int64_t rotated = cos_sin_cache.size(1);
  STD_TORCH_CHECK(rotated % 2 == 0, "cos_sin_cache must have an even width, not ", rotated);
  STD_TORCH_CHECK(rotated <= key.size(2), "cos_sin_cache rotates ", rotated,
                  " elements, but a head of key has ", key.size(2));
  check_like(query_out, "query_out", query);
  args.query = query.const_data_ptr();
  args.positions = static_cast<const int64_t*>(positions.const_data_ptr());
  args.table = cos_sin_cache.const_data_ptr();
  args.query_out = query_out.mutable_data_ptr();
  args.known_positions = cos_sin_cache.size(0);
  args.heads = static_cast<int>(query.size(1));
  args.rotated = static_cast<int>(rotated);
}

void run(const RotaryArgs& args, const Tensor& key, const char* op) {
  if (args.head_size == 0 || args.heads + args.kv_heads == 0) return;
  const Launch launch(key);
  check_launched(rotary(args, launch.stream()), op);
}

void bound_rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,
                            Tensor query_out, Tensor key_out) {
  check_cuda(key, "key");
  RotaryArgs args{};
  args.dtype = args.cache_dtype = dtype_of(key, "key");
  args.key_stride = check_heads(key, "key");
  set_rotation(args, query, key, positions, cos_sin_cache, query_out);
  check_like(key_out, "key_out", key);
  args.key = key.const_data_ptr();
  args.keys = key_out.mutable_data_ptr();
  args.tokens = args.known_slots = check_count(key.size(0), "the number of tokens");
  args.kv_heads = static_cast<int>(key.size(1));
  args.head_size = static_cast<int>(key.size(2));
  run(args, key, "rotary_embedding");
}

void bound_write_kv_cache(Tensor key, Tensor value, Tensor kv_cache, Tensor slot_mapping,
                          std::optional<Tensor> k_scale, std::optional<Tensor> v_scale) {
  check_cuda(key, "key");
  RotaryArgs args{};
  set_cache(args, key, value, kv_cache, slot_mapping, k_scale, v_scale);
  run(args, key, "write_kv_cache");
}

void bound_rotary_write_kv_cache(Tensor query, Tensor key, Tensor value, Tensor positions,
                                 Tensor cos_sin_cache, Tensor kv_cache, Tensor slot_mapping,
                                 Tensor query_out, std::optional<Tensor> k_scale,
                                 std::optional<Tensor> v_scale) {
  check_cuda(key, "key");
  RotaryArgs args{};
  set_cache(args, key, value, kv_cache, slot_mapping, k_scale, v_scale);
  set_rotation(args, query, key, positions, cos_sin_cache, query_out);
  run(args, key, "rotary_write_kv_cache");
}

void bound_copy_blocks(Tensor kv_cache, Tensor pairs) {
  constexpr int64_t kPairs = 65535;
  check_cuda(kv_cache, "kv_cache");
  check_cache(kv_cache, "kv_cache");
  check_device(pairs, "pairs", kv_cache);
  check_dim(pairs, "pairs", 2);
  check_size(pairs, "pairs", 1, 2);
  check_type(pairs, "pairs", ScalarType::Long);
  check_contiguous(pairs, "pairs");
  STD_TORCH_CHECK(pairs.size(0) <= kPairs, "pairs must be ", kPairs, " at most, not ",
                  pairs.size(0));
  const int64_t blocks = kv_cache.size(1);
  if (kv_cache.numel() == 0) return;
  const int64_t block_bytes = kv_cache.numel() / 2 / blocks * kv_cache.element_size();
  const CopyBlocksArgs args{kv_cache.mutable_data_ptr(),
                            static_cast<const int64_t*>(pairs.const_data_ptr()), pairs.size(0),
                            blocks, block_bytes};
  const Launch launch(kv_cache);
  check_launched(copy_blocks(args, launch.stream()), "copy_blocks");
}

// That copies from or to it need not be waited for.
void check_page_locked(const Tensor& x, const char* name) {
  cudaPointerAttributes found{};
  const Error error = cudaPointerGetAttributes(&found, x.const_data_ptr());
  STD_TORCH_CHECK(error == cudaSuccess && found.type == cudaMemoryTypeHost, name,
                  " must be in page-locked memory (pin_memory=True)");
}

// Blocks go between the device and page-locked memory by the copy engines; neighbours whose
// targets are neighbours go at once.
void bound_swap_blocks(Tensor source, Tensor target, Tensor pairs) {
  check_cache(source, "source");
  check_cache(target, "target");
  STD_TORCH_CHECK(source.is_cuda() != target.is_cuda(),
                  "one of source and target must be a CUDA tensor, the other a CPU tensor");
  check_type(target, "target", source.scalar_type());
  for (int64_t d = 2; d < 5; ++d) check_size(target, "target", d, source.size(d));
  STD_TORCH_CHECK(pairs.is_cpu(), "pairs must be a CPU tensor");
  check_dim(pairs, "pairs", 2);
  check_size(pairs, "pairs", 1, 2);
  check_type(pairs, "pairs", ScalarType::Long);
  check_contiguous(pairs, "pairs");
  const int64_t count = pairs.size(0), from_blocks = source.size(1), to_blocks = target.size(1);
  if (count == 0 || source.numel() == 0 || target.numel() == 0) return;
  const bool to_host = source.is_cuda();
  to_host ? check_page_locked(target, "target") : check_page_locked(source, "source");
  const auto* pair = static_cast<const int64_t*>(pairs.const_data_ptr());
  for (int64_t i = 0; i < count; ++i) {
    STD_TORCH_CHECK(pair[2 * i] >= 0 && pair[2 * i] < from_blocks, "pairs[", i,
                    ", 0] = ", pair[2 * i], " is not in source, which has ", from_blocks,
                    " blocks");
    STD_TORCH_CHECK(pair[2 * i + 1] >= 0 && pair[2 * i + 1] < to_blocks, "pairs[", i,
                    ", 1] = ", pair[2 * i + 1], " is not in target, which has ", to_blocks,
                    " blocks");
  }
  const int64_t bytes = source.numel() / 2 / from_blocks * source.element_size();
  const char* from = static_cast<const char*>(source.const_data_ptr());
  char* to = static_cast<char*>(target.mutable_data_ptr());
  const Launch launch(to_host ? source : target);
  const auto kind = to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
  for (int64_t i = 0, run = 1; i < count; i += run, run = 1) {
    const int64_t first = pair[2 * i], place = pair[2 * i + 1];
    while (i + run < count && pair[2 * (i + run)] == first + run &&
           pair[2 * (i + run) + 1] == place + run) {
      ++run;
    }
    for (int64_t half = 0; half < 2; ++half) {
      check_launched(cudaMemcpyAsync(to + (half * to_blocks + place) * bytes,
                                     from + (half * from_blocks + first) * bytes, run * bytes, kind,
                                     launch.stream()),
                     "swap_blocks");
    }
  }
}

}  // namespace
}  // namespace runtime_kernels_cuda

STABLE_TORCH_LIBRARY_FRAGMENT(runtime_kernels_cuda, m) {
  m.def(
      "rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,"
      " Tensor(a!) query_out, Tensor(b!) key_out) -> ()");
  m.def(
      "write_kv_cache(Tensor key, Tensor value, Tensor(a!) kv_cache, Tensor slot_mapping,"
      " Tensor? k_scale=None, Tensor? v_scale=None) -> ()");
  m.def(
      "rotary_write_kv_cache(Tensor query, Tensor key, Tensor value, Tensor positions,"
      " Tensor cos_sin_cache, Tensor(a!) kv_cache, Tensor slot_mapping, Tensor(b!) query_out,"
      " Tensor? k_scale=None, Tensor? v_scale=None) -> ()");
  m.def("copy_blocks(Tensor(a!) kv_cache, Tensor pairs) -> ()");
  m.def("swap_blocks(Tensor source, Tensor(a!) target, Tensor pairs) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cuda, CUDA, m) {
  m.impl("rotary_embedding", TORCH_BOX(&runtime_kernels_cuda::bound_rotary_embedding));
  m.impl("write_kv_cache", TORCH_BOX(&runtime_kernels_cuda::bound_write_kv_cache));
  m.impl("rotary_write_kv_cache", TORCH_BOX(&runtime_kernels_cuda::bound_rotary_write_kv_cache));
  m.impl("copy_blocks", TORCH_BOX(&runtime_kernels_cuda::bound_copy_blocks));
  m.impl("swap_blocks", TORCH_BOX(&runtime_kernels_cuda::bound_swap_blocks));
}
