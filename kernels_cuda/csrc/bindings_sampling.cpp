// Operators that choose tokens from logits. What index tensors hold is not checked: tokens that are
// not in the vocabulary are left out.
#include <torch/csrc/stable/library.h>

#include "checks.h"
#include "launchers.h"

namespace runtime_kernels_cuda {
namespace {

void check_logits(const Tensor& logits) {
  check_cuda(logits, "logits");
  check_dim(logits, "logits", 2);
  check_contiguous(logits, "logits");
  check_count(logits.size(0), "the number of rows");
  STD_TORCH_CHECK(logits.size(1) > 0 && logits.size(1) <= kMostVocab, "logits must have from 1 to ",
                  kMostVocab, " columns, not ", logits.size(1));
}

// One number of each row, or of what there is one more of.
const float* floats_of(const Tensor& x, const char* name, const Tensor& logits) {
  check_vector(x, name, ScalarType::Float, logits.size(0), logits);
  return static_cast<const float*>(x.const_data_ptr());
}
const int* ints_of(const Tensor& x, const char* name, int64_t size, const Tensor& logits) {
  check_vector(x, name, ScalarType::Int, size, logits);
  return static_cast<const int*>(x.const_data_ptr());
}
int64_t* tokens_of(const Tensor& out, const Tensor& logits) {
  check_vector(out, "out", ScalarType::Long, logits.size(0), logits);
  return static_cast<int64_t*>(out.mutable_data_ptr());
}

void bound_greedy_sample(Tensor logits, Tensor out) {
  check_logits(logits);
  const LargestArgs args{dtype_of(logits, "logits"), logits.const_data_ptr(),
                         tokens_of(out, logits), logits.size(0), logits.size(1)};
  const Launch launch(logits);
  check_launched(largest(args, launch.stream()), "greedy_sample");
}

void bound_sample_tokens(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p,
                         Tensor min_p, Tensor uniform, Tensor out) {
  check_logits(logits);
  const DrawArgs args{dtype_of(logits, "logits"),
                      logits.const_data_ptr(),
                      floats_of(temperature, "temperature", logits),
                      ints_of(top_k, "top_k", logits.size(0), logits),
                      floats_of(top_p, "top_p", logits),
                      floats_of(min_p, "min_p", logits),
                      floats_of(uniform, "uniform", logits),
                      tokens_of(out, logits),
                      logits.size(0),
                      logits.size(1)};
  const Launch launch(logits);
  check_launched(draw(args, launch.stream()), "sample_tokens");
}

void bound_apply_penalties(Tensor logits, Tensor token_ids, Tensor starts, Tensor output_starts,
                           Tensor repetition, Tensor presence, Tensor frequency) {
  check_logits(logits);
  check_dim(token_ids, "token_ids", 1);
  const int64_t rows = logits.size(0), known = token_ids.size(0);
  constexpr int64_t kRows = 65535;  // Of a grid.
  STD_TORCH_CHECK(rows <= kRows, "logits must have ", kRows, " rows at most, not ", rows);
  const PenaltyArgs args{dtype_of(logits, "logits"),
                         logits.mutable_data_ptr(),
                         ints_of(token_ids, "token_ids", known, logits),
                         ints_of(starts, "starts", rows + 1, logits),
                         ints_of(output_starts, "output_starts", rows, logits),
                         floats_of(repetition, "repetition", logits),
                         floats_of(presence, "presence", logits),
                         floats_of(frequency, "frequency", logits),
                         rows,
                         logits.size(1),
                         check_count(known, "the number of tokens")};
  const Launch launch(logits);
  check_launched(penalties(args, launch.stream()), "apply_penalties");
}

}  // namespace
}  // namespace runtime_kernels_cuda

STABLE_TORCH_LIBRARY_FRAGMENT(runtime_kernels_cuda, m) {
  m.def("greedy_sample(Tensor logits, Tensor(a!) out) -> ()");
  m.def(
      "sample_tokens(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p,"
      " Tensor uniform, Tensor(a!) out) -> ()");
  m.def(
      "apply_penalties(Tensor(a!) logits, Tensor token_ids, Tensor starts, Tensor output_starts,"
      " Tensor repetition, Tensor presence, Tensor frequency) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(runtime_kernels_cuda, CUDA, m) {
  m.impl("greedy_sample", TORCH_BOX(&runtime_kernels_cuda::bound_greedy_sample));
  m.impl("sample_tokens", TORCH_BOX(&runtime_kernels_cuda::bound_sample_tokens));
  m.impl("apply_penalties", TORCH_BOX(&runtime_kernels_cuda::bound_apply_penalties));
}
