#include <cstring>
#include <vector>

#include "checks.h"
#include "isa_select.h"
#include "launchers.h"
#include "recorder.h"
#include "scratch.h"
#include "thread_pool.h"

namespace runtime_kernels {
namespace {

// Keys of a lone token that one task takes. A constant, so that a token's result depends neither
// on the batch nor on the number of threads.
constexpr int64_t kSplit = 512;

float* thread_scratch(int64_t floats) {
  static thread_local Scratch scratch;
  return static_cast<float*>(scratch.reserve(4 * floats));
}

struct Requests {
  const int32_t* table;
  int64_t width;
  const int32_t* lengths;
  const int32_t* starts;
  int64_t count;
  int64_t tokens;  // Rows of query, those past the last request's among them.
  int64_t blocks;  // Of the cache.
};

// A token's head whose keys were split: where its parts are, one for each head in between.
struct Split {
  int64_t first_task;
  int64_t parts;
};

// Units of work that a thread should find, so that none waits long for the last.
constexpr int64_t kUnitsPerThread = 8;

Requests check_requests(const Tensor& query, const Tensor& kv_cache, const Tensor& block_table,
                        const Tensor& seq_lens, const Tensor& query_start_loc) {
  check_dim(block_table, "block_table", 2);
  check_dim(seq_lens, "seq_lens", 1);
  check_dim(query_start_loc, "query_start_loc", 1);
  check_contiguous(block_table, "block_table");
  check_contiguous(seq_lens, "seq_lens");
  check_contiguous(query_start_loc, "query_start_loc");
  check_type(block_table, "block_table", ScalarType::Int);
  check_type(seq_lens, "seq_lens", ScalarType::Int);
  check_type(query_start_loc, "query_start_loc", ScalarType::Int);
  const Requests requests{static_cast<const int32_t*>(block_table.const_data_ptr()),
                          block_table.size(1),
                          static_cast<const int32_t*>(seq_lens.const_data_ptr()),
                          static_cast<const int32_t*>(query_start_loc.const_data_ptr()),
                          seq_lens.size(0),
                          query.size(0),
                          kv_cache.size(1)};
  check_size(block_table, "block_table", 0, requests.count);
  check_size(query_start_loc, "query_start_loc", 0, requests.count + 1);
  return requests;
}

// What the tensors hold, which changes from step to step.
void check_values(const Requests& requests, int64_t block_size) {
  STD_TORCH_CHECK(requests.starts[0] == 0, "query_start_loc must start with 0, not ",
                  requests.starts[0]);
  for (int64_t r = 0; r < requests.count; ++r) {
    const int64_t tokens = int64_t{requests.starts[r + 1]} - requests.starts[r];
    const int64_t length = requests.lengths[r], used = (length + block_size - 1) / block_size;
    STD_TORCH_CHECK(tokens >= 0 && tokens <= length, "request ", r, " computes ", tokens,
                    " tokens (query_start_loc) of ", length, " (seq_lens)");
    STD_TORCH_CHECK(
        used <= requests.width, "request ", r, " has ", length,
        " tokens (seq_lens), for which block_table has too few columns: ", requests.width);
    for (int64_t i = 0; i < used; ++i) {
      const int64_t block = requests.table[r * requests.width + i];
      STD_TORCH_CHECK(block >= 0 && block < requests.blocks, "block_table[", r, ", ", i,
                      "] = ", block, " is not in kv_cache, which has ", requests.blocks, " blocks");
    }
  }
  STD_TORCH_CHECK(requests.starts[requests.count] <= requests.tokens, "query_start_loc ends at ",
                  requests.starts[requests.count], ", but query has ", requests.tokens, " tokens");
}

class Plan {
 public:
  std::vector<AttentionTask> tasks;
  std::vector<Split> splits;

  Plan(const AttentionArgs& args, const Requests& requests) : args_(args) {
    const int64_t group = args.heads / args.kv_heads;
    // At least one, however many heads share a key head: the launcher checks that they fit.
    const int64_t most = kAttentionRows / group;
    for (int64_t r = 0; r < requests.count; ++r) {
      const int64_t start = requests.starts[r], end = requests.starts[r + 1];
      const int64_t computed = requests.lengths[r] - (end - start);
      const int32_t* blocks = requests.table + r * requests.width;
      for (int64_t token = start; token < end; token += most) {
        const int64_t tokens = token + most < end ? most : end - token;
        add(blocks, token, tokens, computed + token - start, end - start == 1);
      }
    }
    place_partials(group);
  }

 private:
  void add(const int32_t* blocks, int64_t token, int64_t tokens, int64_t position, bool lone) {
    int64_t begin = 0;
    const int64_t end = position + tokens;
    if (args_.window > 0 && position + 1 > args_.window) begin = position + 1 - args_.window;
    const int64_t parts = lone ? (end - begin + kSplit - 1) / kSplit : 1;
    const auto first = static_cast<int64_t>(tasks.size());
    for (int64_t part = 0; part < parts; ++part) {
      const int64_t from = begin + part * kSplit;
      const int64_t to = part + 1 < parts ? from + kSplit : end;
      for (int64_t head = 0; head < args_.kv_heads; ++head) {
        if (part == 0 && parts > 1) splits.push_back({first + head, parts});
        tasks.push_back({blocks, token, tokens, position, head, from, to, nullptr});
      }
    }
  }

  void place_partials(int64_t group) {
    int64_t floats = 0;
    const int64_t part = group * partial_floats(args_.head_size);
    for (const Split& split : splits) floats += split.parts * part;
    partials_.resize(static_cast<size_t>(floats));
    float* next = partials_.data();
    for (const Split& split : splits) {
      for (int64_t i = 0; i < split.parts; ++i, next += part) {
        tasks[split.first_task + i * args_.kv_heads].partial = next;
      }
    }
  }

  const AttentionArgs& args_;
  std::vector<float> partials_;
};

AttentionArgs check_args(const Tensor& query, const Tensor& kv_cache, const Tensor& out,
                         double scale, int64_t window, double soft_cap) {
  const int64_t stride = check_heads(query, "query");
  check_dim(kv_cache, "kv_cache", 5);
  check_contiguous(kv_cache, "kv_cache");
  const bool quantized = kv_cache.scalar_type() == ScalarType::Char;
  if (!quantized) check_type(kv_cache, "kv_cache", query.scalar_type());
  check_size(kv_cache, "kv_cache", 0, 2);
  check_size(kv_cache, "kv_cache", 4, quantized ? cached_head_bytes(query.size(2)) : query.size(2));
  check_like(out, "out", query);
  const int64_t heads = query.size(1), kv_heads = kv_cache.size(3), block_size = kv_cache.size(2);
  STD_TORCH_CHECK(kv_heads > 0 && block_size > 0 && query.size(2) > 0,
                  "kv_cache must not be empty");
  STD_TORCH_CHECK(heads % kv_heads == 0, "query has ", heads,
                  " heads, which is no multiple of kv_cache's ", kv_heads);
  STD_TORCH_CHECK(heads / kv_heads <= kAttentionRows, "query has ", heads / kv_heads,
                  " heads for each of kv_cache's, more than ", kAttentionRows);
  STD_TORCH_CHECK(window >= 0, "window must not be negative: ", window);
  STD_TORCH_CHECK(soft_cap >= 0, "soft_cap must not be negative");
  const auto bytes = static_cast<int64_t>(kv_cache.element_size());
  const auto* keys = static_cast<const char*>(kv_cache.const_data_ptr());
  return {dtype_of(query, "query"),
          quantized,
          query.const_data_ptr(),
          stride,
          keys,
          keys + kv_cache.numel() / 2 * bytes,
          out.mutable_data_ptr(),
          heads,
          kv_heads,
          query.size(2),
          block_size,
          static_cast<float>(scale),
          window,
          static_cast<float>(soft_cap)};
}

void attend(const AttentionArgs& args, const Requests& requests) {
  check_values(requests, args.block_size);
  Plan plan(args, requests);
  const KernelTable& table = kernels();
  const int64_t floats = attention_scratch(args.head_size);
  // Heads of a token lie side by side: a thread that takes them one after the other finds the
  // pages, and often the cache lines, of the later ones.
  const auto tasks = static_cast<int64_t>(plan.tasks.size());
  const bool all_lone = requests.starts[requests.count] == requests.count;
  const int64_t side_by_side = tasks / args.kv_heads;
  const int64_t unit = all_lone && side_by_side >= kUnitsPerThread * threads() ? args.kv_heads : 1;
  auto run = [&](int64_t index) {
    for (int64_t i = index * unit; i < (index + 1) * unit; ++i) {
      table.attention(args, plan.tasks[i], thread_scratch(floats));
    }
  };
  if (tasks > 0) parallel(tasks / unit, run);
  const int64_t group = args.heads / args.kv_heads;
  auto merge = [&](int64_t index) {
    const Split& split = plan.splits[index];
    const AttentionTask& first = plan.tasks[split.first_task];
    table.merge(args, first.partial, split.parts, group, first.token, first.kv_head);
  };
  if (!plan.splits.empty()) parallel(static_cast<int64_t>(plan.splits.size()), merge);
  // Rows past the last request are padding and give zeros.
  const int64_t used = requests.starts[requests.count], row = args.heads * args.head_size;
  const int64_t bytes = args.dtype == DType::kFloat32 ? 4 : 2;
  std::memset(static_cast<char*>(args.out) + used * row * bytes, 0,
              static_cast<size_t>((requests.tokens - used) * row * bytes));
}

}  // namespace

void paged_attention(Tensor query, Tensor kv_cache, Tensor block_table, Tensor seq_lens,
                     Tensor query_start_loc, Tensor out, double scale, int64_t window,
                     double soft_cap) {
  const AttentionArgs args = check_args(query, kv_cache, out, scale, window, soft_cap);
  const Requests requests = check_requests(query, kv_cache, block_table, seq_lens, query_start_loc);
  submit([args, requests] { attend(args, requests); });
}

}  // namespace runtime_kernels
