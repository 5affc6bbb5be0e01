// Launchers of norms and gates.
#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

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
  NormArgs args{dtype_of(x, "x"),
                x.const_data_ptr(),
                nullptr,
                weight.const_data_ptr(),
                out.mutable_data_ptr(),
                nullptr,
                width,
                static_cast<float>(eps)};
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

}  // namespace runtime_kernels
