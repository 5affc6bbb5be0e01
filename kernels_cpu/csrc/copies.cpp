// Launchers that copy memory: rows of a table, whole tensors.
#include <cstring>

#include "checks.h"
#include "launchers.h"
#include "recorder.h"
#include "thread_pool.h"

namespace runtime_kernels {

void embedding(Tensor token_ids, Tensor weight, Tensor out) {
  check_dim(token_ids, "token_ids", 1);
  check_contiguous(token_ids, "token_ids");
  check_type(token_ids, "token_ids", ScalarType::Int);
  check_dim(weight, "weight", 2);
  check_contiguous(weight, "weight");
  check_dim(out, "out", 2);
  check_contiguous(out, "out");
  check_type(out, "out", weight.scalar_type());
  const int64_t tokens = token_ids.size(0), known = weight.size(0), width = weight.size(1);
  check_size(out, "out", 0, tokens);
  check_size(out, "out", 1, width);
  const int64_t bytes = width * element_bytes(dtype_of(weight, "weight"));
  const auto* ids = static_cast<const int32_t*>(token_ids.const_data_ptr());
  const auto* from = static_cast<const char*>(weight.const_data_ptr());
  auto* to = static_cast<char*>(out.mutable_data_ptr());
  submit([=] {
    for (int64_t i = 0; i < tokens; ++i) {
      STD_TORCH_CHECK(ids[i] >= 0 && ids[i] < known, "token_ids[", i, "] = ", ids[i],
                      " is not in weight, which has ", known, " rows");
    }
    constexpr int64_t kGrainBytes = 1 << 16;
    parallel_ranges(tokens, kGrainBytes / (bytes + 1) + 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(to + i * bytes, from + ids[i] * bytes, static_cast<size_t>(bytes));
      }
    });
  });
}

void copy(Tensor from, Tensor to) {
  check_contiguous(from, "from");
  check_contiguous(to, "to");
  check_type(to, "to", from.scalar_type());
  STD_TORCH_CHECK(to.numel() == from.numel(), "to must have ", from.numel(), " elements, not ",
                  to.numel());
  const auto* source = static_cast<const char*>(from.const_data_ptr());
  auto* target = static_cast<char*>(to.mutable_data_ptr());
  const int64_t bytes = from.numel() * static_cast<int64_t>(from.element_size());
  submit([=] {
    constexpr int64_t kGrainBytes = 1 << 16;
    parallel_ranges(bytes, kGrainBytes, [&](int64_t begin, int64_t end) {
      std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
    });
  });
}

}  // namespace runtime_kernels
