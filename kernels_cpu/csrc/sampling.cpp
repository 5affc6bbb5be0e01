// Launchers of what chooses tokens.
#include <vector>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "scratch.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

// Logits that a thread looks at together: what its nearest cache holds.
constexpr int64_t kChunk = 8192;

void check_logits(const Tensor& logits) {
  check_dim(logits, "logits", 2);
  check_contiguous(logits, "logits");
  STD_TORCH_CHECK(logits.size(1) > 0, "logits must have a column");
}

// One number of each row.
template <class T>
const T* check_column(const Tensor& x, const char* name, ScalarType type, int64_t rows) {
  check_dim(x, name, 1);
  check_contiguous(x, name);
  check_type(x, name, type);
  check_size(x, name, 0, rows);
  return static_cast<const T*>(x.const_data_ptr());
}

int64_t* check_out(const Tensor& out, int64_t rows) {
  check_column<int64_t>(out, "out", ScalarType::Long, rows);
  return static_cast<int64_t*>(out.mutable_data_ptr());
}

void find_largest(const LargestArgs& args, int64_t rows, int64_t* out) {
  const int64_t chunks = (args.vocab + kChunk - 1) / kChunk;
  std::vector<float> found(static_cast<size_t>(rows * chunks));
  const KernelTable& table = kernels();
  const auto end_of = [&](int64_t begin) {
    return begin + kChunk < args.vocab ? begin + kChunk : args.vocab;
  };
  auto look = [&](int64_t index) {
    const int64_t begin = index % chunks * kChunk;
    found[static_cast<size_t>(index)] = table.largest(args, index / chunks, begin, end_of(begin));
  };
  if (!found.empty()) parallel(rows * chunks, look);
  for (int64_t row = 0; row < rows; ++row) {
    const float* values = found.data() + row * chunks;
    int64_t best = 0;
    for (int64_t i = 1; i < chunks; ++i) best = values[i] > values[best] ? i : best;
    const int64_t begin = best * kChunk;
    out[row] = table.place(args, row, begin, end_of(begin), values[best]);
  }
}

float* draw_memory(int64_t vocab) {
  static thread_local Scratch scratch;
  return static_cast<float*>(scratch.reserve(4 * draw_scratch(vocab)));
}

int32_t* zero_counts(int64_t vocab) {
  static thread_local std::vector<int32_t> counts;
  if (static_cast<int64_t>(counts.size()) < vocab) counts.assign(static_cast<size_t>(vocab), 0);
  return counts.data();
}

// What the tensors hold, which changes from step to step.
void check_tokens(const PenaltyArgs& args, int64_t rows, int64_t known) {
  STD_TORCH_CHECK(args.starts[0] == 0, "starts must start with 0, not ", args.starts[0]);
  for (int64_t row = 0; row < rows; ++row) {
    STD_TORCH_CHECK(
        args.starts[row] <= args.starts[row + 1] && args.starts[row + 1] <= known, "starts[",
        row + 1, "] = ", args.starts[row + 1],
        " must be no less than the one before, and no more than token_ids has: ", known);
  }
  for (int64_t i = 0; i < args.starts[rows]; ++i) {
    STD_TORCH_CHECK(args.token_ids[i] >= 0 && args.token_ids[i] < args.vocab, "token_ids[", i,
                    "] = ", args.token_ids[i], " is not in logits, which have ", args.vocab,
                    " columns");
  }
}

}  // namespace

void greedy_sample(Tensor logits, Tensor out) {
  check_logits(logits);
  const LargestArgs args{dtype_of(logits, "logits"), logits.const_data_ptr(), logits.size(1)};
  int64_t* to = check_out(out, logits.size(0));
  submit([args, to, rows = logits.size(0)] { find_largest(args, rows, to); });
}

void sample_tokens(Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor min_p,
                   Tensor uniform, Tensor out) {
  check_logits(logits);
  const int64_t rows = logits.size(0);
  const auto floats = [rows](const Tensor& x, const char* name) {
    return check_column<float>(x, name, ScalarType::Float, rows);
  };
  const DrawArgs args{dtype_of(logits, "logits"),
                      logits.const_data_ptr(),
                      logits.size(1),
                      floats(temperature, "temperature"),
                      check_column<int32_t>(top_k, "top_k", ScalarType::Int, rows),
                      floats(top_p, "top_p"),
                      floats(min_p, "min_p"),
                      floats(uniform, "uniform"),
                      check_out(out, rows)};
  submit([args, rows] {
    for (int64_t row = 0; row < rows; ++row) {
      STD_TORCH_CHECK(args.temperature[row] > 0, "temperature[", row, "] = ", args.temperature[row],
                      " must be above 0");
    }
    const auto function = kernels().draw;
    parallel_ranges(rows, 1, [&](int64_t begin, int64_t end) {
      function(args, begin, end, draw_memory(args.vocab));
    });
  });
}

void apply_penalties(Tensor logits, Tensor token_ids, Tensor starts, Tensor output_starts,
                     Tensor repetition, Tensor presence, Tensor frequency) {
  check_logits(logits);
  const int64_t rows = logits.size(0), known = token_ids.size(0);
  const auto floats = [rows](const Tensor& x, const char* name) {
    return check_column<float>(x, name, ScalarType::Float, rows);
  };
  const PenaltyArgs args{
      dtype_of(logits, "logits"),
      logits.mutable_data_ptr(),
      logits.size(1),
      check_column<int32_t>(token_ids, "token_ids", ScalarType::Int, known),
      check_column<int32_t>(starts, "starts", ScalarType::Int, rows + 1),
      check_column<int32_t>(output_starts, "output_starts", ScalarType::Int, rows),
      floats(repetition, "repetition"),
      floats(presence, "presence"),
      floats(frequency, "frequency")};
  submit([args, rows, known] {
    check_tokens(args, rows, known);
    const auto function = kernels().penalise;
    parallel_ranges(rows, 1, [&](int64_t begin, int64_t end) {
      function(args, begin, end, zero_counts(args.vocab));
    });
  });
}

}  // namespace runtime_kernels
