// Launchers of ops that pass over their elements once: norms, the gate, rotary, the cache write.
#include <cstring>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

// Elements that are worth a thread's attention.
constexpr int64_t kGrain = 16384;

int64_t rows_a_range(int64_t width) { return width >= kGrain ? 1 : kGrain / (width + 1) + 1; }

void norm(const Tensor& x, const Tensor* residual, const Tensor& weight, const Tensor& out,
          const Tensor* total, double eps) {
  check_contiguous(x, "x");
  STD_TORCH_CHECK(x.dim() >= 1, "x must have a dimension");
  const int64_t width = x.size(x.dim() - 1);
  check_dim(weight, "weight", 1);
  check_contiguous(weight, "weight");
  check_type(weight, "weight", x.scalar_type());
  check_size(weight, "weight", 0, width);
  check_like(out, "out", x);
  NormArgs args{dtype_of(x, "x"), x.const_data_ptr(), nullptr, weight.const_data_ptr(),
                out.mutable_data_ptr(), nullptr, width, static_cast<float>(eps)};
  if (residual != nullptr) {
    check_like(*residual, "residual", x);
    check_like(*total, "total", x);
    args.residual = residual->const_data_ptr();
    args.total = total->mutable_data_ptr();
  }
  submit([args, rows = rows_of(x)] {
    const auto function = kernels().norm;
    parallel_ranges(rows, rows_a_range(args.width),
                    [&](int64_t begin, int64_t end) { function(args, begin, end); });
  });
}

RotaryArgs rotary_args(const Tensor& x, const char* name, const Tensor& positions,
                       const Tensor& table) {
  const int64_t stride = check_heads(x, name);
  check_type(table, "cos_sin_cache", x.scalar_type());
  check_size(positions, "positions", 0, x.size(0));
  STD_TORCH_CHECK(table.size(1) <= x.size(2), "cos_sin_cache rotates ", table.size(1),
                  " elements, but a head of ", name, " has ", x.size(2));
  return {dtype_of(x, name), x.const_data_ptr(), nullptr, stride, x.size(1), x.size(2),
          static_cast<const int64_t*>(positions.const_data_ptr()), table.const_data_ptr(),
          table.size(1)};
}

void rotate(const Tensor& x, const char* name, const Tensor& out, const char* out_name,
            const Tensor& positions, const Tensor& table) {
  RotaryArgs args = rotary_args(x, name, positions, table);
  check_like(out, out_name, x);
  args.out = out.mutable_data_ptr();
  submit([args, tokens = x.size(0)] {
    const auto function = kernels().rotary;
    parallel_ranges(tokens, rows_a_range(args.heads * args.head_size),
                    [&](int64_t begin, int64_t end) { function(args, begin, end); });
  });
}

}  // namespace

void rms_norm(Tensor x, Tensor weight, Tensor out, double eps) {
  norm(x, nullptr, weight, out, nullptr, eps);
}

void fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, Tensor out, Tensor total,
                        double eps) {
  norm(x, &residual, weight, out, &total, eps);
}

namespace {

void gate(Activation activation, const Tensor& x, const Tensor& out) {
  check_contiguous(x, "x");
  check_contiguous(out, "out");
  STD_TORCH_CHECK(x.dim() >= 1 && out.dim() == x.dim(), "x and out must have the same dimensions");
  check_type(out, "out", x.scalar_type());
  const int64_t last = x.dim() - 1, width = x.size(last) / 2;
  STD_TORCH_CHECK(x.size(last) % 2 == 0, "x must have an even last dimension, not ", x.size(last));
  for (int64_t d = 0; d < last; ++d) check_size(out, "out", d, x.size(d));
  check_size(out, "out", last, width);
  const GateArgs args{dtype_of(x, "x"), activation, x.const_data_ptr(), out.mutable_data_ptr(),
                      width};
  submit([args, rows = rows_of(x)] {
    const auto function = kernels().gate;
    // An exponential and a division cost as much as several elements elsewhere.
    parallel_ranges(rows, rows_a_range(4 * args.width),
                    [&](int64_t begin, int64_t end) { function(args, begin, end); });
  });
}

}  // namespace

void silu_and_mul(Tensor x, Tensor out) { gate(Activation::kSilu, x, out); }
void gelu_tanh_and_mul(Tensor x, Tensor out) { gate(Activation::kGeluTanh, x, out); }

namespace {

// That positions are rows of the table: its shape now, their values when the work is done.
void check_positions(const Tensor& positions, const Tensor& cos_sin_cache) {
  check_dim(positions, "positions", 1);
  check_contiguous(positions, "positions");
  check_type(positions, "positions", ScalarType::Long);
  check_dim(cos_sin_cache, "cos_sin_cache", 2);
  check_contiguous(cos_sin_cache, "cos_sin_cache");
  STD_TORCH_CHECK(cos_sin_cache.size(1) % 2 == 0, "cos_sin_cache must have an even width, not ",
                  cos_sin_cache.size(1));
  const auto* values = static_cast<const int64_t*>(positions.const_data_ptr());
  submit([values, tokens = positions.size(0), known = cos_sin_cache.size(0)] {
    for (int64_t i = 0; i < tokens; ++i) {
      STD_TORCH_CHECK(values[i] >= 0 && values[i] < known, "positions[", i, "] = ", values[i],
                      " is not in cos_sin_cache, which has ", known, " rows");
    }
  });
}

}  // namespace

void rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,
                      Tensor query_out, Tensor key_out) {
  check_positions(positions, cos_sin_cache);
  rotate(query, "query", query_out, "query_out", positions, cos_sin_cache);
  rotate(key, "key", key_out, "key_out", positions, cos_sin_cache);
}

namespace {

// Where tokens' keys and values go.
struct CacheRows {
  char* keys;
  char* values;
  const int64_t* slots;
  int64_t known;  // Slots in all.
  int64_t bytes;  // Of a token's keys.

  void check(int64_t tokens) const {
    for (int64_t i = 0; i < tokens; ++i) {
      STD_TORCH_CHECK(slots[i] >= 0 && slots[i] < known, "slot_mapping[", i, "] = ", slots[i],
                      " is not in kv_cache, which has ", known, " slots");
    }
  }
  void write(char* to, const void* from, int64_t token, int64_t stride_bytes) const {
    std::memcpy(to + slots[token] * bytes, static_cast<const char*>(from) + token * stride_bytes,
                static_cast<size_t>(bytes));
  }
};

CacheRows cache_rows(const Tensor& key, const Tensor& value, const Tensor& kv_cache,
                     const Tensor& slot_mapping) {
  check_dim(kv_cache, "kv_cache", 5);
  check_contiguous(kv_cache, "kv_cache");
  check_size(kv_cache, "kv_cache", 0, 2);
  check_type(key, "key", kv_cache.scalar_type());
  check_type(value, "value", kv_cache.scalar_type());
  for (int64_t d = 0; d < 3; ++d) check_size(value, "value", d, key.size(d));
  check_size(kv_cache, "kv_cache", 3, key.size(1));
  check_size(kv_cache, "kv_cache", 4, key.size(2));
  check_dim(slot_mapping, "slot_mapping", 1);
  check_contiguous(slot_mapping, "slot_mapping");
  check_type(slot_mapping, "slot_mapping", ScalarType::Long);
  check_size(slot_mapping, "slot_mapping", 0, key.size(0));
  const int64_t known = kv_cache.size(1) * kv_cache.size(2);
  const int64_t bytes = key.size(1) * key.size(2) * element_bytes(dtype_of(key, "key"));
  auto* keys = static_cast<char*>(kv_cache.mutable_data_ptr());
  return {keys, keys + known * bytes, static_cast<const int64_t*>(slot_mapping.const_data_ptr()),
          known, bytes};
}

}  // namespace

void write_kv_cache(Tensor key, Tensor value, Tensor kv_cache, Tensor slot_mapping) {
  const int64_t key_elements = check_heads(key, "key"), value_elements = check_heads(value, "value");
  const CacheRows rows = cache_rows(key, value, kv_cache, slot_mapping);
  const int64_t size = element_bytes(dtype_of(key, "key")), tokens = key.size(0);
  const int64_t key_stride = key_elements * size, value_stride = value_elements * size;
  const void *keys = key.const_data_ptr(), *values = value.const_data_ptr();
  submit([=] {
    rows.check(tokens);
    parallel_ranges(tokens, rows_a_range(rows.bytes), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        rows.write(rows.keys, keys, i, key_stride);
        rows.write(rows.values, values, i, value_stride);
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
  const int64_t value_elements = check_heads(value, "value");
  const CacheRows rows = cache_rows(key, value, kv_cache, slot_mapping);
  submit([=, values = value.const_data_ptr(), tokens = key.size(0)] {
    rows.check(tokens);
    const auto function = kernels().rotary;
    const int64_t key_stride = keys.x_stride * element_bytes(keys.dtype);
    const int64_t value_stride = value_elements * element_bytes(keys.dtype);
    const int64_t width = (queries.heads + 2 * keys.heads) * keys.head_size;
    parallel_ranges(tokens, rows_a_range(width), [&](int64_t begin, int64_t end) {
      function(queries, begin, end);
      RotaryArgs one = keys;
      for (int64_t i = begin; i < end; ++i) {
        one.x = static_cast<const char*>(keys.x) + i * key_stride;
        one.positions = keys.positions + i;
        one.out = rows.keys + rows.slots[i] * rows.bytes;
        function(one, 0, 1);
        rows.write(rows.values, values, i, value_stride);
      }
    });
  });
}

}  // namespace runtime_kernels
