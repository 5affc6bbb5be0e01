#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "thread_pool.h"

namespace runtime_kernels {

void linear(Tensor x, Tensor weight, std::optional<Tensor> bias, Tensor out) {
  check_contiguous(x, "x");
  check_dim(weight, "weight", 2);
  check_contiguous(weight, "weight");
  check_type(weight, "weight", x.scalar_type());
  STD_TORCH_CHECK(x.dim() >= 1, "x must have a dimension");
  const int64_t last = x.dim() - 1, n = weight.size(0), k = weight.size(1);
  check_size(x, "x", last, k);
  check_contiguous(out, "out");
  check_type(out, "out", x.scalar_type());
  STD_TORCH_CHECK(out.dim() == x.dim(), "out must have ", x.dim(), " dimensions, not ", out.dim());
  for (int64_t d = 0; d < last; ++d) check_size(out, "out", d, x.size(d));
  check_size(out, "out", last, n);
  const void* addend = nullptr;
  if (bias.has_value()) {
    check_dim(*bias, "bias", 1);
    check_contiguous(*bias, "bias");
    check_type(*bias, "bias", x.scalar_type());
    check_size(*bias, "bias", 0, n);
    addend = bias->const_data_ptr();
  }
  const LinearArgs args{dtype_of(x, "x"),
                        x.const_data_ptr(),
                        weight.const_data_ptr(),
                        addend,
                        out.mutable_data_ptr(),
                        rows_of(x),
                        n,
                        k};
  // Ranges by the bytes of weights in them, whole blocks of rows.
  constexpr int64_t kBytes = 65536;
  const int64_t row = k * (args.dtype == DType::kFloat32 ? 4 : 2);
  const int64_t blocks = row > 0 ? kBytes / row / 4 : 0, grain = blocks > 0 ? blocks : 1;
  submit([args, grain] {
    const auto function = kernels().linear;
    parallel_ranges((args.n + 3) / 4, grain, [&](int64_t begin, int64_t end) {
      function(args, 4 * begin, 4 * end < args.n ? 4 * end : args.n);
    });
  });
}

}  // namespace runtime_kernels
