// The launcher of rotary embedding.
#include "rotary.h"

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "thread_pool.h"

namespace runtime_kernels {

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

RotaryArgs rotary_args(const Tensor& x, const char* name, const Tensor& positions,
                       const Tensor& table) {
  const int64_t stride = check_heads(x, name);
  check_type(table, "cos_sin_cache", x.scalar_type());
  check_size(positions, "positions", 0, x.size(0));
  STD_TORCH_CHECK(table.size(1) <= x.size(2), "cos_sin_cache rotates ", table.size(1),
                  " elements, but a head of ", name, " has ", x.size(2));
  return {dtype_of(x, name),
          x.const_data_ptr(),
          nullptr,
          stride,
          x.size(1),
          x.size(2),
          static_cast<const int64_t*>(positions.const_data_ptr()),
          table.const_data_ptr(),
          table.size(1)};
}

namespace {

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

void rotary_embedding(Tensor query, Tensor key, Tensor positions, Tensor cos_sin_cache,
                      Tensor query_out, Tensor key_out) {
  check_positions(positions, cos_sin_cache);
  rotate(query, "query", query_out, "query_out", positions, cos_sin_cache);
  rotate(key, "key", key_out, "key_out", positions, cos_sin_cache);
}

}  // namespace runtime_kernels
