// The decode kernel on the host (see emulated/) against attention in double precision.
#include <random>

#include "runtime_kernels_cuda/paged_decode.cuh"

namespace runtime_kernels_cuda {
namespace {

struct Case {
  std::vector<int> lengths;
  int heads, kv_heads, head_size, block_size, splits, least_keys;
  int window = 0;
  float soft_cap = 0.0f;
};

// Elements of a dtype, and what they are.
template <typename T>
std::vector<T> random(size_t count, std::mt19937& generator, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<T> values(count);
  for (T& value : values) value = from_float<T>(normal(generator));
  return values;
}

template <typename T, typename Cache>
double error(const Case& c, std::mt19937& generator) {
  const int requests = static_cast<int>(c.lengths.size()), group = c.heads / c.kv_heads;
  const int longest = *std::max_element(c.lengths.begin(), c.lengths.end());
  const int pages = static_cast<int>(ceil_div(longest, c.block_size)) + 1;
  const int blocks = requests * pages + 2, row = c.kv_heads * c.head_size;
  const size_t half = size_t(blocks) * c.block_size * row;
  const int64_t stride = int64_t{c.heads + 3} * c.head_size;  // A part of wider rows.
  const auto query = random<T>(requests * stride, generator);
  auto cache = random<Cache>(2 * half, generator);
  std::vector<int> order(blocks - 1), table(requests * pages, -12345678);
  for (int i = 0; i < blocks - 1; ++i) order[i] = i + 1;
  std::shuffle(order.begin(), order.end(), generator);
  for (int r = 0; r < requests; ++r) {
    for (int p = 0; p * c.block_size < c.lengths[r]; ++p)
      table[r * pages + p] = order[r * pages + p];
  }
  const bool narrow = sizeof(Cache) == 1;
  const float key_scale = narrow ? 0.7f : 1.0f, value_scale = narrow ? 1.9f : 1.0f;
  const float scale = 1.0f / std::sqrt(float(c.head_size));
  std::vector<double> wanted(size_t(requests) * c.heads * c.head_size);
  std::vector<bool> seen(half / row);
  for (int r = 0; r < requests; ++r) {
    auto slot = [&](int key) {
      return size_t(table[r * pages + key / c.block_size]) * c.block_size + key % c.block_size;
    };
    const int first = c.window > 0 ? std::max(0, c.lengths[r] - c.window) : 0;
    for (int key = first; key < c.lengths[r]; ++key) seen[slot(key)] = true;
    for (int head = 0; head < c.heads; ++head) {
      const size_t of_head = head / group * c.head_size;
      std::vector<double> weights;
      double total = 0.0;
      for (int key = first; key < c.lengths[r]; ++key) {
        double score = 0.0;
        for (int d = 0; d < c.head_size; ++d) {
          score += double(to_float(query[r * stride + head * c.head_size + d])) *
                   to_float(cache[slot(key) * row + of_head + d]);
        }
        score *= double(scale) * key_scale;
        if (c.soft_cap > 0) score = c.soft_cap * std::tanh(score / c.soft_cap);
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      double* out = &wanted[(size_t(r) * c.heads + head) * c.head_size];
      for (int key = first; key < c.lengths[r]; ++key) {
        for (int d = 0; d < c.head_size; ++d) {
          out[d] += weights[key - first] / total * value_scale *
                    to_float(cache[half + slot(key) * row + of_head + d]);
        }
      }
    }
  }
  // Nothing else may be read.
  for (size_t slot = 0; slot < seen.size(); ++slot) {
    if (seen[slot]) continue;
    for (int i = 0; i < 2 * row; ++i) {
      cache[(i < row ? 0 : half) + slot * row + i % row] = from_float<Cache>(NAN);
    }
  }
  PagedDecodeArgs args{};
  args.dtype = std::is_same_v<T, BFloat16> ? DType::kBFloat16 : DType::kFloat16;
  args.cache_dtype = narrow ? DType::kFloat8E4M3 : args.dtype;
  args.query = query.data();
  args.query_stride = stride;
  args.kv_cache = cache.data();
  args.block_table = table.data();
  args.table_stride = pages;
  args.seq_lens = c.lengths.data();
  args.key_scale = narrow ? &key_scale : nullptr;
  args.value_scale = narrow ? &value_scale : nullptr;
  args.requests = requests;
  args.blocks = blocks;
  args.block_size = c.block_size;
  args.heads = c.heads;
  args.kv_heads = c.kv_heads;
  args.head_size = c.head_size;
  args.splits = c.splits;
  args.least_keys = c.least_keys;
  args.scale = scale;
  args.window = c.window;
  args.soft_cap = c.soft_cap;
  std::vector<T> out(wanted.size(), from_float<T>(NAN));
  std::vector<float> workspace(decode_workspace(args), NAN);
  std::vector<int> counters(decode_counters(args), 0);
  args.out = out.data();
  args.workspace = workspace.data();
  args.counters = counters.data();
  double worst = 0.0;
  for (int again = 0; again < 2; ++again) {  // Counters are zeros again.
    std::fill(out.begin(), out.end(), from_float<T>(NAN));
    if (launch_paged_decode<T>(args, nullptr) != cudaSuccess) return NAN;
    double difference = 0.0, norm = 0.0;
    for (size_t i = 0; i < out.size(); ++i) {
      const double d = to_float(out[i]) - wanted[i];
      difference += d * d;
      norm += wanted[i] * wanted[i];
    }
    const double relative = std::sqrt(difference / norm);
    if (!(relative <= worst)) worst = relative;
  }
  return worst;
}

bool parts_cover_each_key_once() {
  for (int length : {0, 1, 15, 16, 17, 64, 100, 1000, 4097, 131072}) {
    for (int window : {0, 1, 50, 128, 5000}) {
      for (int splits : {1, 2, 7, 32, 64}) {
        for (int least : {16, 64, 512}) {
          int at = window > 0 ? std::max(0, length - window) : 0;
          const int parts = decode_part_of(length, window, splits, least, 0).parts;
          if (parts < 1 || parts > splits) return false;
          for (int i = 0; i < splits; ++i) {
            const DecodePart part = decode_part_of(length, window, splits, least, i);
            if (part.parts != parts || (i < parts && part.start != at)) return false;
            if (i < parts && part.stop <= part.start && length > 0) return false;
            if (i >= parts && part.start != part.stop) return false;
            if (i < parts) at = part.stop;
          }
          if (at != length) return false;
        }
      }
    }
  }
  return true;
}

int check_all() {
  const unsigned seed = std::random_device{}();
  std::mt19937 generator(seed);
  std::printf("seed %u\n", seed);
  int failed = 0;
  auto note = [&](bool good, const char* what, double found) {
    std::printf("%s %s: %.2e\n", good ? "ok  " : "FAIL", what, found);
    failed += !good;
  };
  note(parts_cover_each_key_once(), "parts cover each key once", 0.0);
  const std::vector<Case> cases{
      {{1, 70, 16, 131}, 8, 2, 128, 16, 1, 64},
      {{300, 1, 65}, 4, 1, 64, 16, 4, 64},
      {{200, 33}, 6, 2, 80, 8, 8, 16},
      {{150}, 20, 1, 128, 32, 3, 16, 100},
      {{90, 40}, 2, 2, 256, 16, 2, 32, 0, 15.0f},
      {{77, 129}, 4, 2, 192, 5, 3, 16, 50, 5.0f},
      {{1000}, 2, 1, 64, 16, 64, 16},
  };
  for (const Case& c : cases) {
    char name[96];
    std::snprintf(name, sizeof name, "heads %d/%d size %d block %d splits %d window %d cap %g",
                  c.heads, c.kv_heads, c.head_size, c.block_size, c.splits, c.window,
                  double(c.soft_cap));
    for (double found :
         {error<BFloat16, BFloat16>(c, generator), error<BFloat16, Float8E4M3>(c, generator)}) {
      note(found < 6e-3, name, found);
    }
    for (double found :
         {error<Float16, Float16>(c, generator), error<Float16, Float8E4M3>(c, generator)}) {
      note(found < 1e-3, name, found);
    }
  }
  return failed;
}

}  // namespace
}  // namespace runtime_kernels_cuda

int main() { return runtime_kernels_cuda::check_all() != 0; }
