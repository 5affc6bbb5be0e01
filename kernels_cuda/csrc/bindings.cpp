// Operators on rows and matrices, in torch's stable ABI. They write to tensors that the caller
// made. Each file of bindings adds its own operators to the namespace.
#include <torch/csrc/stable/library.h>

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

}  // namespace
}  // namespace runtime_kernels_cuda

STABLE_TORCH_LIBRARY_FRAGMENT(runtime_kernels_cuda, m) {
  m.def("rms_norm(Tensor x, Tensor weight, Tensor(a!) out, float eps) -> ()");
  m.def(
      "fused_add_rms_norm(Tensor x, Tensor residual, Tensor weight, Tensor(a!) out,"
      " Tensor(b!) total, float eps) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cuda, CUDA, m) {
  m.impl("rms_norm", TORCH_BOX(&runtime_kernels_cuda::bound_rms_norm));
  m.impl("fused_add_rms_norm", TORCH_BOX(&runtime_kernels_cuda::bound_fused_add_rms_norm));
}
