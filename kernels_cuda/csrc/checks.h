// Checks that bindings share. Each names the argument and what is wrong with it.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include <limits>
#include <optional>

#include "runtime_kernels_cuda/device.h"
#include "runtime_kernels_cuda/types.h"

namespace runtime_kernels_cuda {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline DType dtype_of(const Tensor& x, const char* name) {
  const ScalarType type = x.scalar_type();
  switch (type) {
    case ScalarType::Float:
      return DType::kFloat32;
    case ScalarType::BFloat16:
      return DType::kBFloat16;
    case ScalarType::Half:
      return DType::kFloat16;
    default:
      STD_TORCH_CHECK(false, name, " must be float32, bfloat16 or float16, not ",
                      torch::headeronly::toString(type));
  }
}

inline void check_cuda(const Tensor& x, const char* name) {
  STD_TORCH_CHECK(x.is_cuda(), name, " must be a CUDA tensor");
}

// On the device of another, which is a CUDA tensor.
inline void check_device(const Tensor& x, const char* name, const Tensor& other) {
  check_cuda(x, name);
  STD_TORCH_CHECK(x.get_device_index() == other.get_device_index(), name,
                  " must be on the device of the first argument, cuda:", other.get_device_index(),
                  ", not cuda:", x.get_device_index());
}

inline void check_dim(const Tensor& x, const char* name, int64_t dim) {
  STD_TORCH_CHECK(x.dim() == dim, name, " must have ", dim, " dimensions, not ", x.dim());
}

inline void check_size(const Tensor& x, const char* name, int64_t dim, int64_t size) {
  STD_TORCH_CHECK(x.size(dim) == size, name, " must have size ", size, " in dimension ", dim,
                  ", not ", x.size(dim));
}

inline void check_type(const Tensor& x, const char* name, ScalarType type) {
  STD_TORCH_CHECK(x.scalar_type() == type, name,
                  " must have the dtype that its kernel takes: ", torch::headeronly::toString(type),
                  ", not ", torch::headeronly::toString(x.scalar_type()));
}

inline void check_contiguous(const Tensor& x, const char* name) {
  STD_TORCH_CHECK(x.is_contiguous(), name, " must be contiguous");
}

// A contiguous vector of a dtype and size, on the device of another.
inline void check_vector(const Tensor& x, const char* name, ScalarType type, int64_t size,
                         const Tensor& other) {
  check_device(x, name, other);
  check_dim(x, name, 1);
  check_type(x, name, type);
  check_size(x, name, 0, size);
  check_contiguous(x, name);
}

// The scale of a float8 cache: one number, or null, which is 1.
inline const float* scale_of(const std::optional<Tensor>& x, const char* name, bool narrow,
                             const Tensor& other) {
  if (!x.has_value()) return nullptr;
  STD_TORCH_CHECK(narrow, name, " is given, but kv_cache is not float8_e4m3fn");
  check_vector(*x, name, ScalarType::Float, 1, other);
  return static_cast<const float*>(x->const_data_ptr());
}

// A contiguous tensor of the same shape, dtype and device as another.
inline void check_like(const Tensor& x, const char* name, const Tensor& other) {
  check_device(x, name, other);
  check_contiguous(x, name);
  check_type(x, name, other.scalar_type());
  check_dim(x, name, other.dim());
  for (int64_t d = 0; d < x.dim(); ++d) check_size(x, name, d, other.size(d));
}

// [T, heads, size] whose heads are contiguous in a token; returns elements from token to token.
inline int64_t check_heads(const Tensor& x, const char* name) {
  check_dim(x, name, 3);
  const bool whole =
      (x.size(2) == 1 || x.stride(2) == 1) && (x.size(1) == 1 || x.stride(1) == x.size(2));
  STD_TORCH_CHECK(whole, name, " must have contiguous heads");
  const int64_t stride = x.size(0) > 1 ? x.stride(0) : x.size(1) * x.size(2);
  STD_TORCH_CHECK(stride >= 0, name, " must not have a negative stride");
  return stride;
}

// Numbers that kernels count with 32 bits.
inline int64_t check_count(int64_t count, const char* name) {
  STD_TORCH_CHECK(count <= std::numeric_limits<int32_t>::max(), name, " must be below 2**31, not ",
                  count);
  return count;
}

// Rows of the last dimension.
inline int64_t rows_of(const Tensor& x) {
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  return check_count(rows, "the number of rows");
}

// The device of a tensor made current, and its current stream; for the time of a launch.
class Launch {
 public:
  explicit Launch(const Tensor& x) : guard_(x.get_device_index()) {
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(x.get_device_index(), &stream));
    stream_ = static_cast<Stream>(stream);
  }
  Stream stream() const { return stream_; }

 private:
  torch::stable::accelerator::DeviceGuard guard_;
  Stream stream_;
};

inline void check_launched(Error error, const char* op) {
  STD_TORCH_CHECK(error == cudaSuccess, op, " could not be launched: ", cudaGetErrorString(error));
}

}  // namespace runtime_kernels_cuda
