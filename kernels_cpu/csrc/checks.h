// Checks that launchers share. Each names the argument and what is wrong with it.
#pragma once

#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/util/Exception.h>

#include "runtime_kernels/types.h"

namespace runtime_kernels {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

inline DType dtype_of(const Tensor& x, const char* name) {
  switch (x.scalar_type()) {
    case ScalarType::Float:
      return DType::kFloat32;
    case ScalarType::BFloat16:
      return DType::kBFloat16;
    case ScalarType::Half:
      return DType::kFloat16;
    default:
      STD_TORCH_CHECK(false, name, " must be float32, bfloat16 or float16");
  }
}

inline void check_cpu(const Tensor& x, const char* name) {
  STD_TORCH_CHECK(x.is_cpu(), name, " must be a CPU tensor");
}

inline void check_dim(const Tensor& x, const char* name, int64_t dim) {
  check_cpu(x, name);
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
  check_cpu(x, name);
  STD_TORCH_CHECK(x.is_contiguous(), name, " must be contiguous");
}

// A contiguous tensor of the same shape and dtype as another.
inline void check_like(const Tensor& x, const char* name, const Tensor& other) {
  check_contiguous(x, name);
  check_type(x, name, other.scalar_type());
  STD_TORCH_CHECK(x.dim() == other.dim(), name, " must have ", other.dim(), " dimensions, not ",
                  x.dim());
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

// Rows of the last dimension.
inline int64_t rows_of(const Tensor& x) {
  int64_t rows = 1;
  for (int64_t d = 0; d + 1 < x.dim(); ++d) rows *= x.size(d);
  return rows;
}

}  // namespace runtime_kernels
