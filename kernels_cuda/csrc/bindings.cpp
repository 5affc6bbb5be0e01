// Operators on rows and matrices, in torch's stable ABI. They write to tensors that the caller
// made. Each file of bindings adds its own operators to the namespace.
#include <torch/csrc/stable/library.h>

#include <optional>

#include "checks.h"
#include "launchers.h"

namespace runtime_kernels_cuda {
namespace {

void norm(const Tensor& x, const Tensor* residual, const Tensor& weight, const Tensor& out,
          const Tensor* total, double eps, const char* op) {
  check_cuda(x, "x");
  check_contiguous(x, "x");
  STD_TORCH_CHECK(x.dim() >= 1, "x must have a dimension");
  const int64_t width = check_count(x.size(x.dim() - 1), "the width of x");
  check_vector(weight, "weight", x.scalar_type(), width, x);
  check_like(out, "out", x);
  RmsNormArgs args{dtype_of(x, "x"),
                   x.const_data_ptr(),
                   nullptr,
                   weight.const_data_ptr(),
                   out.mutable_data_ptr(),
                   nullptr,
                   rows_of(x),
                   width,
                   static_cast<float>(eps)};
  if (residual != nullptr) {
    check_like(*residual, "residual", x);
    check_like(*total, "total", x);
    args.residual = residual->const_data_ptr();
    args.total = total->mutable_data_ptr();
  }
  if (width == 0) return;
  const Launch launch(x);
  check_launched(rms_norm(args, launch.stream()), op);
}

void bound_rms_norm(Tensor x, Tensor weight, Tensor out, double eps) {
  norm(x, nullptr, weight, out, nullptr, eps, "rms_norm");
}

void bound_fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, Tensor out, Tensor total,
                              double eps) {
  norm(x, &residual, weight, out, &total, eps, "fused_add_rms_norm");
}

void bound_gate(Activation activation, const Tensor& x, const Tensor& out, const char* op) {
  check_cuda(x, "x");
  check_contiguous(x, "x");
  STD_TORCH_CHECK(x.dim() >= 1, "x must have a dimension");
  const int64_t last = x.dim() - 1, width = check_count(x.size(last), "the width of x") / 2;
  STD_TORCH_CHECK(x.size(last) % 2 == 0, "x must have an even last dimension, not ", x.size(last));
  check_device(out, "out", x);
  check_dim(out, "out", x.dim());
  check_contiguous(out, "out");
  check_type(out, "out", x.scalar_type());
  for (int64_t d = 0; d < last; ++d) check_size(out, "out", d, x.size(d));
  check_size(out, "out", last, width);
  const GateArgs args{dtype_of(x, "x"),       activation, x.const_data_ptr(),
                      out.mutable_data_ptr(), rows_of(x), width};
  if (width == 0) return;
  const Launch launch(x);
  check_launched(gate(args, launch.stream()), op);
}

void bound_silu_and_mul(Tensor x, Tensor out) {
  bound_gate(Activation::kSilu, x, out, "silu_and_mul");
}

void bound_gelu_tanh_and_mul(Tensor x, Tensor out) {
  bound_gate(Activation::kGeluTanh, x, out, "gelu_tanh_and_mul");
}

void bound_linear(Tensor x, Tensor weight, std::optional<Tensor> bias, Tensor out) {
  constexpr int64_t kRows = 16;
  check_cuda(x, "x");
  check_contiguous(x, "x");
  STD_TORCH_CHECK(x.dim() >= 1, "x must have a dimension");
  const ScalarType type = x.scalar_type();
  STD_TORCH_CHECK(type == ScalarType::BFloat16 || type == ScalarType::Half,
                  "x must be bfloat16 or float16, not ", torch::headeronly::toString(type));
  const int64_t last = x.dim() - 1, rows = rows_of(x);
  const int64_t k = check_count(x.size(last), "the width of x");
  STD_TORCH_CHECK(rows <= kRows, "x must have ", kRows, " rows at most, not ", rows);
  STD_TORCH_CHECK(k % 8 == 0, "the width of x must be a multiple of 8, not ", k);
  check_device(weight, "weight", x);
  check_dim(weight, "weight", 2);
  check_type(weight, "weight", type);
  check_contiguous(weight, "weight");
  check_size(weight, "weight", 1, k);
  const int64_t n = check_count(weight.size(0), "the number of rows of weight");
  if (bias.has_value()) check_vector(*bias, "bias", type, n, x);
  check_device(out, "out", x);
  check_dim(out, "out", x.dim());
  check_type(out, "out", type);
  check_contiguous(out, "out");
  for (int64_t d = 0; d < last; ++d) check_size(out, "out", d, x.size(d));
  check_size(out, "out", last, n);
  const LinearArgs args{dtype_of(x, "x"),
                        x.const_data_ptr(),
                        weight.const_data_ptr(),
                        bias.has_value() ? bias->const_data_ptr() : nullptr,
                        out.mutable_data_ptr(),
                        rows,
                        n,
                        k};
  STD_TORCH_CHECK(aligned(args.x) && aligned(args.weight),
                  "x and weight must be at multiples of 16 bytes");
  if (rows == 0 || n == 0) return;
  const Launch launch(x);
  check_launched(linear(args, launch.stream()), "linear");
}

}  // namespace
}  // namespace runtime_kernels_cuda

STABLE_TORCH_LIBRARY_FRAGMENT(runtime_kernels_cuda, m) {
  m.def("rms_norm(Tensor x, Tensor weight, Tensor(a!) out, float eps) -> ()");
  m.def(
      "fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, Tensor(a!) out,"
      " Tensor(b!) total, float eps) -> ()");
  m.def("silu_and_mul(Tensor x, Tensor(a!) out) -> ()");
  m.def("gelu_tanh_and_mul(Tensor x, Tensor(a!) out) -> ()");
  m.def("linear(Tensor x, Tensor weight, Tensor? bias, Tensor(a!) out) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cuda, CUDA, m) {
  m.impl("rms_norm", TORCH_BOX(&runtime_kernels_cuda::bound_rms_norm));
  m.impl("fused_add_rms_norm", TORCH_BOX(&runtime_kernels_cuda::bound_fused_add_rms_norm));
  m.impl("silu_and_mul", TORCH_BOX(&runtime_kernels_cuda::bound_silu_and_mul));
  m.impl("gelu_tanh_and_mul", TORCH_BOX(&runtime_kernels_cuda::bound_gelu_tanh_and_mul));
  m.impl("linear", TORCH_BOX(&runtime_kernels_cuda::bound_linear));
}
