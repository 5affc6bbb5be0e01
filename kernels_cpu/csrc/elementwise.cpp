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

void rotate(const Tensor& x, const char* name, const Tensor& out, const char* out_name,
            const Tensor& positions, const Tensor& table) {
  const int64_t stride = check_heads(x, name), tokens = x.size(0);
  check_type(table, "cos_sin_cache", x.scalar_type());
  check_size(positions, "positions", 0, tokens);
  STD_TORCH_CHECK(table.size(1) <= x.size(2), "cos_sin_cache rotates ", table.size(1),
                  " elements, but a head of ", name, " has ", x.size(2));
  check_like(out, out_name, x);
  const RotaryArgs args{dtype_of(x, name), x.const_data_ptr(), out.mutable_data_ptr(), stride,
                        x.size(1), x.size(2),
                        static_cast<const int64_t*>(positions.const_data_ptr()),
                        table.const_data_ptr(), table.size(1)};
  submit([args, tokens] {
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

void silu_and_mul(Tensor x, Tensor out) {
  check_contiguous(x, "x");
  check_contiguous(out, "out");
  STD_TORCH_CHECK(x.dim() >= 1 && out.dim() == x.dim(), "x and out must have the same dimensions");
  check_type(out, "out", x.scalar_type());
  const int64_t last = x.dim() - 1, width = x.size(last) / 2;
  STD_TORCH_CHECK(x.size(last) % 2 == 0, "x must have an even last dimension, not ", x.size(last));
  for (int64_t d = 0; d < last; ++d) check_size(out, "out", d, x.size(d));
  check_size(out, "out", last, width);
  const GateArgs args{dtype_of(x, "x"), x.const_data_ptr(), out.mutable_data_ptr(), width};
  submit([args, rows = rows_of(x)] {
    const auto function = kernels().gate;
    // An exponential and a division cost as much as several elements elsewhere.
    parallel_ranges(rows, rows_a_range(4 * args.width),
                    [&](int64_t begin, int64_t end) { function(args, begin, end); });
  });
}

void rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,
                      Tensor query_out, Tensor key_out) {
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
  rotate(query, "query", query_out, "query_out", positions, cos_sin_cache);
  rotate(key, "key", key_out, "key_out", positions, cos_sin_cache);
}

void write_kv_cache(Tensor key, Tensor value, Tensor kv_cache, Tensor slot_mapping) {
  const int64_t key_stride = check_heads(key, "key"), value_stride = check_heads(value, "value");
  check_dim(kv_cache, "kv_cache", 5);
  check_contiguous(kv_cache, "kv_cache");
  check_size(kv_cache, "kv_cache", 0, 2);
  check_type(key, "key", kv_cache.scalar_type());
  check_type(value, "value", kv_cache.scalar_type());
  const int64_t tokens = key.size(0), blocks = kv_cache.size(1), block_size = kv_cache.size(2);
  for (int64_t d = 0; d < 3; ++d) check_size(value, "value", d, key.size(d));
  check_size(kv_cache, "kv_cache", 3, key.size(1));
  check_size(kv_cache, "kv_cache", 4, key.size(2));
  check_dim(slot_mapping, "slot_mapping", 1);
  check_contiguous(slot_mapping, "slot_mapping");
  check_type(slot_mapping, "slot_mapping", ScalarType::Long);
  check_size(slot_mapping, "slot_mapping", 0, tokens);
  const auto* slots = static_cast<const int64_t*>(slot_mapping.const_data_ptr());
  const int64_t most = blocks * block_size;
  const int64_t bytes = dtype_of(key, "key") == DType::kFloat32 ? 4 : 2;
  const int64_t row = key.size(1) * key.size(2) * bytes;
  const auto* keys = static_cast<const char*>(key.const_data_ptr());
  const auto* values = static_cast<const char*>(value.const_data_ptr());
  auto* cache = static_cast<char*>(kv_cache.mutable_data_ptr());
  submit([=] {
    for (int64_t i = 0; i < tokens; ++i) {
      STD_TORCH_CHECK(slots[i] >= 0 && slots[i] < most, "slot_mapping[", i, "] = ", slots[i],
                      " is not in kv_cache, which has ", most, " slots");
    }
    parallel_ranges(tokens, rows_a_range(row), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(cache + slots[i] * row, keys + i * key_stride * bytes, row);
        std::memcpy(cache + (most + slots[i]) * row, values + i * value_stride * bytes, row);
      }
    });
  });
}

}  // namespace runtime_kernels
