// The kernels of norms, gates, products, rotary embedding and blocks on the host (see emulated/)
// against plain code in double precision.
#include <random>

#include "runtime_kernels_cuda/copy_blocks.cuh"
#include "runtime_kernels_cuda/gate.cuh"
#include "runtime_kernels_cuda/linear.cuh"
#include "runtime_kernels_cuda/rms_norm.cuh"
#include "runtime_kernels_cuda/rotary.cuh"

namespace runtime_kernels_cuda {
namespace {

std::mt19937& generator() {
  static std::mt19937 own(std::random_device{}());
  return own;
}

template <typename T>
std::vector<T> random(size_t count, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<T> values(count);
  for (T& value : values) value = from_float<T>(normal(generator()));
  return values;
}

// Nothing is a number before it is written.
template <typename T>
std::vector<T> unwritten(size_t count) {
  return std::vector<T>(count, from_float<T>(NAN));
}

template <typename T>
constexpr DType dtype_of = std::is_same_v<T, float>      ? DType::kFloat32
                           : std::is_same_v<T, BFloat16> ? DType::kBFloat16
                                                         : DType::kFloat16;

// A rounding or two of the result, and sums in another order.
template <typename T>
bool near(double got, double wanted, double of = 0.0) {
  const double step = std::is_same_v<T, float> ? 1e-5 : std::is_same_v<T, BFloat16> ? 1e-2 : 2e-3;
  return std::abs(got - wanted) <= step * (std::abs(wanted) + of);
}

template <typename T>
bool normalises(int rows, int width, bool residual) {
  const auto x = random<T>(rows * width), added = random<T>(rows * width),
             weight = random<T>(width);
  auto out = unwritten<T>(x.size()), total = unwritten<T>(x.size());
  const RmsNormArgs args{dtype_of<T>,   x.data(),   residual ? added.data() : nullptr,
                         weight.data(), out.data(), residual ? total.data() : nullptr,
                         rows,          width,      1e-5f};
  launch_rms_norm<T>(args, nullptr);
  for (int r = 0; r < rows; ++r) {
    double squares = 0.0;
    std::vector<double> row;
    for (int i = r * width; i < (r + 1) * width; ++i) {
      row.push_back(double(to_float(x[i])) + (residual ? to_float(added[i]) : 0.0f));
      if (residual) {
        if (!near<T>(to_float(total[i]), row.back())) return false;
        // What is added is rounded before it is squared.
        row.back() = to_float(total[i]);
      }
      squares += row.back() * row.back();
    }
    const double scale = 1.0 / std::sqrt(squares / width + 1e-5);
    for (int i = 0; i < width; ++i) {
      const double wanted = row[i] * scale * to_float(weight[i]);
      if (!near<T>(to_float(out[r * width + i]), wanted, 1e-3)) return false;
    }
  }
  return true;
}

template <typename T>
bool gates(int rows, int width, Activation activation) {
  const auto x = random<T>(rows * 2 * width, 3.0f);
  auto out = unwritten<T>(rows * width);
  launch_gate<T>({dtype_of<T>, activation, x.data(), out.data(), rows, width}, nullptr);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < width; ++i) {
      const double gate = to_float(x[r * 2 * width + i]), up = to_float(x[(r * 2 + 1) * width + i]);
      const double turned = std::sqrt(2 / M_PI) * (gate + 0.044715 * gate * gate * gate);
      const double active = activation == Activation::kSilu ? gate / (1 + std::exp(-gate))
                                                            : 0.5 * gate * (1 + std::tanh(turned));
      if (!near<T>(to_float(out[r * width + i]), active * up, 1e-4)) return false;
    }
  }
  return true;
}

template <typename T>
bool multiplies(int rows, int n, int k, bool with_bias) {
  const auto x = random<T>(rows * k), weight = random<T>(n * k, 1.0f / std::sqrt(float(k)));
  const auto bias = random<T>(n);
  auto out = unwritten<T>(rows * n);
  launch_linear<T>({dtype_of<T>, x.data(), weight.data(), with_bias ? bias.data() : nullptr,
                    out.data(), rows, n, k},
                   nullptr);
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < n; ++c) {
      double sum = with_bias ? to_float(bias[c]) : 0.0;
      for (int i = 0; i < k; ++i)
        sum += double(to_float(x[r * k + i])) * to_float(weight[c * k + i]);
      if (!near<T>(to_float(out[r * n + c]), sum, 1e-3)) return false;
    }
  }
  return true;
}

template <typename T, typename Cache>
bool rotates_and_writes(int tokens, int heads, int kv_heads, int size, int rotated) {
  constexpr int kPositions = 40, kSlots = 64;
  const bool narrow = sizeof(Cache) == 1;
  const float key_scale = narrow ? 0.05f : 1.0f, value_scale = narrow ? 0.02f : 1.0f;
  const int row = (heads + 2 * kv_heads) * size, of_keys = kv_heads * size, half = rotated / 2;
  const auto merged = random<T>(tokens * row);
  std::vector<T> table(kPositions * rotated);
  for (int p = 0; p < kPositions; ++p) {
    for (int i = 0; i < half; ++i) {
      const double angle = p * std::pow(100.0, -double(i) / half);
      table[p * rotated + i] = from_float<T>(float(std::cos(angle)));
      table[p * rotated + half + i] = from_float<T>(float(std::sin(angle)));
    }
  }
  std::vector<int64_t> positions, slots(kSlots);
  for (int i = 0; i < kSlots; ++i) slots[i] = i;
  std::shuffle(slots.begin(), slots.end(), generator());
  for (int i = 0; i < tokens; ++i) positions.push_back(generator()() % kPositions);
  auto query_out = unwritten<T>(tokens * heads * size);
  auto cache = unwritten<Cache>(2 * kSlots * of_keys);
  RotaryArgs args{};
  args.dtype = dtype_of<T>;
  args.cache_dtype = narrow ? DType::kFloat8E4M3 : args.dtype;
  args.query = merged.data();
  args.key = merged.data() + heads * size;
  args.value = merged.data() + (heads + kv_heads) * size;
  args.query_stride = args.key_stride = args.value_stride = row;
  args.positions = positions.data();
  args.table = table.data();
  args.query_out = query_out.data();
  args.keys = cache.data();
  args.values = cache.data() + kSlots * of_keys;
  args.slots = slots.data();
  args.key_scale = narrow ? &key_scale : nullptr;
  args.value_scale = narrow ? &value_scale : nullptr;
  args.tokens = tokens;
  args.known_positions = kPositions;
  args.known_slots = kSlots;
  args.heads = heads;
  args.kv_heads = kv_heads;
  args.head_size = size;
  args.rotated = rotated;
  launch_rotary<T>(args, nullptr);
  auto turned = [&](int token, int head, int i) {
    const T* from = &merged[token * row + head * size];
    if (i >= rotated) return double(to_float(from[i]));
    const T* angles = &table[positions[token] * rotated];
    const int pair = i % half;
    const double a = to_float(from[pair]), b = to_float(from[pair + half]);
    const double c = to_float(angles[pair]), s = to_float(angles[pair + half]);
    return i < half ? a * c - b * s : b * c + a * s;
  };
  auto stored = [&](const Cache& got, double wanted, float scale) {
    if (!narrow) return near<T>(to_float(got), wanted, 1e-2);
    // Three bits behind the first, or the smallest step; nothing is beyond the largest.
    return std::abs(to_float(got) * scale - wanted) <=
           std::abs(wanted) * 0.07 + scale * 0.002 + 1e-2 * std::abs(wanted);
  };
  size_t written = 0;
  for (const Cache& x : cache) written += !std::isnan(to_float(x));
  bool good = written == size_t(2) * tokens * of_keys;
  for (int t = 0; t < tokens; ++t) {
    for (int h = 0; h < heads; ++h) {
      for (int i = 0; i < size; ++i) {
        good &= near<T>(to_float(query_out[(t * heads + h) * size + i]), turned(t, h, i), 1e-2);
      }
    }
    for (int h = 0; h < kv_heads; ++h) {
      for (int i = 0; i < size; ++i) {
        const size_t at = slots[t] * of_keys + h * size + i;
        const double value = to_float(merged[t * row + (heads + kv_heads + h) * size + i]);
        good &= stored(cache[at], turned(t, heads + h, i), key_scale);
        good &= stored(cache[kSlots * of_keys + at], value, value_scale);
      }
    }
  }
  return good;
}

bool copies_blocks(int bytes) {
  constexpr int kBlocks = 7;
  std::vector<unsigned char> cache(2 * kBlocks * bytes);
  for (auto& x : cache) x = static_cast<unsigned char>(generator()());
  auto wanted = cache;
  const std::vector<int64_t> pairs{1, 5, 3, 2, 1, 6};
  for (int half = 0; half < 2; ++half) {
    for (size_t i = 0; i < pairs.size(); i += 2) {
      std::memcpy(&wanted[(half * kBlocks + pairs[i + 1]) * bytes],
                  &cache[(half * kBlocks + pairs[i]) * bytes], bytes);
    }
  }
  const CopyBlocksArgs args{cache.data(), pairs.data(), 3, kBlocks, bytes};
  bytes % 16 == 0 ? launch_copy_blocks<uint4>(args, nullptr)
                  : launch_copy_blocks<unsigned char>(args, nullptr);
  return cache == wanted;
}

template <typename T>
int check_all(const char* type) {
  int failed = 0;
  auto note = [&](bool good, const char* what) {
    std::printf("%s %s %s\n", good ? "ok  " : "FAIL", type, what);
    failed += !good;
  };
  for (const auto& [rows, width] : {std::pair{1, 4096}, {9, 576}, {2, 40000}, {3, 33}}) {
    note(normalises<T>(rows, width, false), "rms_norm");
    note(normalises<T>(rows, width, true), "fused_add_rms_norm");
  }
  for (int width : {1000, 1024, 33}) {
    note(gates<T>(3, width, Activation::kSilu), "silu_and_mul");
    note(gates<T>(3, width, Activation::kGeluTanh), "gelu_tanh_and_mul");
  }
  note(rotates_and_writes<T, T>(5, 8, 2, 64, 64), "rotary_write_kv_cache");
  note(rotates_and_writes<T, T>(3, 3, 1, 80, 32), "rotary_write_kv_cache, a part of heads");
  note(rotates_and_writes<T, T>(4, 4, 2, 20, 10), "rotary_write_kv_cache, odd sizes");
  note(rotates_and_writes<T, Float8E4M3>(5, 8, 2, 64, 64), "rotary_write_kv_cache to float8");
  note(rotates_and_writes<T, Float8E4M3>(3, 3, 1, 20, 10), "the same, odd sizes");
  if constexpr (!std::is_same_v<T, float>) {
    for (int rows : {1, 5, 8, 9, 16}) note(multiplies<T>(rows, 40, 1304, rows > 4), "linear");
    note(multiplies<T>(3, 1, 8, true), "linear, small");
    note(multiplies<T>(2, 16, 4096, false), "linear, wide");
  }
  return failed;
}

}  // namespace
}  // namespace runtime_kernels_cuda

int main() {
  using namespace runtime_kernels_cuda;
  int failed =
      check_all<float>("float32") + check_all<BFloat16>("bfloat16") + check_all<Float16>("float16");
  for (int bytes : {4096, 100, 16 * 1100}) {
    const bool good = copies_blocks(bytes);
    std::printf("%s copy_blocks of %d bytes\n", good ? "ok  " : "FAIL", bytes);
    failed += !good;
  }
  return failed != 0;
}
