// Launchers that write keys and values to their slots, rotated and quantized on the way.
#include <cstring>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "rotary.h"
#include "scratch.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

// Where tokens' keys and values go, and as what.
struct CacheRows {
  char* keys;
  char* values;
  const int64_t* slots;
  int64_t known;  // Slots in all.
  int64_t bytes;  // Of a token's keys in the cache.
  DType dtype;    // Of what is written.
  bool quantized;
  int64_t heads, head_size;

  void check(int64_t tokens) const {
    for (int64_t i = 0; i < tokens; ++i) {
      STD_TORCH_CHECK(slots[i] >= 0 && slots[i] < known, "slot_mapping[", i, "] = ", slots[i],
                      " is not in kv_cache, which has ", known, " slots");
    }
  }
  // `from`: a token's heads.
  void write(char* to, const void* from, int64_t token) const {
    char* own = to + slots[token] * bytes;
    if (quantized) {
      kernels().quantize_heads({dtype, from, head_size, reinterpret_cast<int8_t*>(own)}, 0, heads);
    } else {
      std::memcpy(own, from, static_cast<size_t>(bytes));
    }
  }
};

CacheRows cache_rows(const Tensor& key, const Tensor& value, const Tensor& kv_cache,
                     const Tensor& slot_mapping) {
  check_dim(kv_cache, "kv_cache", 5);
  check_contiguous(kv_cache, "kv_cache");
  check_size(kv_cache, "kv_cache", 0, 2);
  const bool quantized = kv_cache.scalar_type() == ScalarType::Char;
  if (!quantized) check_type(key, "key", kv_cache.scalar_type());
  check_type(value, "value", key.scalar_type());
  for (int64_t d = 0; d < 3; ++d) check_size(value, "value", d, key.size(d));
  const int64_t heads = key.size(1), size = key.size(2);
  check_size(kv_cache, "kv_cache", 3, heads);
  check_size(kv_cache, "kv_cache", 4, quantized ? cached_head_bytes(size) : size);
  check_dim(slot_mapping, "slot_mapping", 1);
  check_contiguous(slot_mapping, "slot_mapping");
  check_type(slot_mapping, "slot_mapping", ScalarType::Long);
  check_size(slot_mapping, "slot_mapping", 0, key.size(0));
  const int64_t known = kv_cache.size(1) * kv_cache.size(2);
  const int64_t bytes = heads * kv_cache.size(4) * static_cast<int64_t>(kv_cache.element_size());
  auto* keys = static_cast<char*>(kv_cache.mutable_data_ptr());
  const auto* slots = static_cast<const int64_t*>(slot_mapping.const_data_ptr());
  return {keys, keys + known * bytes, slots, known, bytes, dtype_of(key, "key"), quantized, heads,
          size};
}

// A token's rotated heads on their way to a quantized cache.
char* rotated_memory(int64_t bytes) {
  static thread_local Scratch scratch;
  return static_cast<char*>(scratch.reserve(bytes));
}

}  // namespace

void write_kv_cache(Tensor key, Tensor value, Tensor kv_cache, Tensor slot_mapping) {
  const int64_t key_elements = check_heads(key, "key"),
                value_elements = check_heads(value, "value");
  const CacheRows rows = cache_rows(key, value, kv_cache, slot_mapping);
  const int64_t size = element_bytes(rows.dtype), tokens = key.size(0);
  const int64_t key_stride = key_elements * size, value_stride = value_elements * size;
  const auto* keys = static_cast<const char*>(key.const_data_ptr());
  const auto* values = static_cast<const char*>(value.const_data_ptr());
  submit([=] {
    rows.check(tokens);
    parallel_ranges(tokens, rows_a_range(rows.bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        rows.write(rows.keys, keys + i * key_stride, i);
        rows.write(rows.values, values + i * value_stride, i);
      }
    });
  });
}

void rotary_write_kv_cache(Tensor query, Tensor key, Tensor value, Tensor positions,
                           Tensor cos_sin_cache, Tensor kv_cache, Tensor slot_mapping,
                           Tensor query_out) {
  check_positions(positions, cos_sin_cache);
  RotaryArgs queries = rotary_args(query, "query", positions, cos_sin_cache);
  check_like(query_out, "query_out", query);
  queries.out = query_out.mutable_data_ptr();
  const RotaryArgs keys = rotary_args(key, "key", positions, cos_sin_cache);
  const int64_t size = element_bytes(keys.dtype);
  const int64_t value_stride = check_heads(value, "value") * size;
  const CacheRows rows = cache_rows(key, value, kv_cache, slot_mapping);
  const auto* values = static_cast<const char*>(value.const_data_ptr());
  submit([=, tokens = key.size(0)] {
    rows.check(tokens);
    const auto function = kernels().rotary;
    const int64_t elements = keys.heads * keys.head_size;
    const int64_t width = queries.heads * queries.head_size + 2 * elements;
    parallel_ranges(tokens, rows_a_range(width), [&](int64_t begin, int64_t end) {
      function(queries, begin, end);
      RotaryArgs one = keys;
      char* rotated = rows.quantized ? rotated_memory(elements * size) : nullptr;
      for (int64_t i = begin; i < end; ++i) {
        one.x = static_cast<const char*>(keys.x) + i * keys.x_stride * size;
        one.positions = keys.positions + i;
        one.out = rows.quantized ? rotated : rows.keys + rows.slots[i] * rows.bytes;
        function(one, 0, 1);
        if (rows.quantized) rows.write(rows.keys, rotated, i);
        rows.write(rows.values, values + i * value_stride, i);
      }
    });
  });
}

}  // namespace runtime_kernels
