// Every function of every instruction set that this machine has, against double precision.
//
// Usage: kernels [SEED]. Prints the seed and a line for each instruction set; fails with the first
// result that is further off than its function may be. Needs neither torch nor Python, so that it
// runs under an emulator too.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "isa_select.h"
#include "runtime_kernels/ops/pack_group.h"
#include "runtime_kernels/packed_layout.h"
#include "runtime_kernels/table.h"

using namespace runtime_kernels;

namespace {

std::mt19937_64 engine;

float normal() {
  static std::normal_distribution<float> distribution;
  return distribution(engine);
}
std::vector<float> normals(int64_t n, float scale = 1.0f) {
  std::vector<float> out(static_cast<size_t>(n));
  for (float& x : out) x = scale * normal();
  return out;
}

// Fails where the norm of the difference is above `most` of the norm of what is expected.
void expect(const std::string& what, const float* got, const std::vector<double>& expected,
            double most) {
  double error = 0, size = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += (got[i] - expected[i]) * (got[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  const double off = std::sqrt(error / (size + 1e-300));
  if (off <= most) return;  // False for NaN.
  std::printf("FAILED %s %s: off by %.3g, may be %.3g\n", kernels().name, what.c_str(), off, most);
  std::exit(1);
}

void test_norm() {
  for (const int64_t width : {1, 7, 64, 577}) {
    const int64_t rows = 3;
    const auto x = normals(rows * width), residual = normals(rows * width), w = normals(width);
    for (const bool adds : {false, true}) {
      std::vector<float> out(x.size()), total(x.size());
      kernels().norm({DType::kFloat32, x.data(), adds ? residual.data() : nullptr, w.data(),
                      out.data(), adds ? total.data() : nullptr, width, 1e-5f},
                     0, rows);
      std::vector<double> sums(x.size()), normed(x.size());
      for (int64_t row = 0; row < rows; ++row) {
        double squares = 0;
        for (int64_t i = row * width; i < (row + 1) * width; ++i) {
          sums[i] = double{x[i]} + (adds ? residual[i] : 0.0f);
          squares += sums[i] * sums[i];
        }
        for (int64_t i = 0; i < width; ++i) {
          const int64_t at = row * width + i;
          normed[at] = sums[at] / std::sqrt(squares / static_cast<double>(width) + 1e-5) * w[i];
        }
      }
      expect("norm", out.data(), normed, 1e-6);
      if (adds) expect("norm's total", total.data(), sums, 1e-6);
    }
  }
}

void test_gate() {
  for (const int64_t width : {1, 5, 64, 333}) {
    const auto x = normals(4 * width, 3.0f);
    for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh}) {
      std::vector<float> out(static_cast<size_t>(2 * width));
      kernels().gate({DType::kFloat32, activation, x.data(), out.data(), width}, 0, 2);
      std::vector<double> expected(out.size());
      for (int64_t i = 0; i < 2 * width; ++i) {
        const double g = x[i / width * 2 * width + i % width];
        const double up = x[i / width * 2 * width + width + i % width];
        const double u = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
        const bool silu = activation == Activation::kSilu;
        expected[i] = up * (silu ? g / (1 + std::exp(-g)) : g * (1 + std::tanh(u)) / 2);
      }
      expect("gate", out.data(), expected, 1e-6);
    }
  }
}

void test_rotary() {
  const int64_t tokens = 3, heads = 2, size = 80, rotated = 34, half = rotated / 2;
  const auto x = normals(tokens * heads * size), table = normals(7 * rotated);
  const int64_t positions[] = {6, 0, 3};
  std::vector<float> out(x.size());
  kernels().rotary({DType::kFloat32, x.data(), out.data(), heads * size, heads, size, positions,
                    table.data(), rotated},
                   0, tokens);
  std::vector<double> expected(x.begin(), x.end());
  for (int64_t head = 0; head < tokens * heads; ++head) {
    const float* row = table.data() + positions[head / heads] * rotated;
    for (int64_t i = 0; i < half; ++i) {
      const double first = x[head * size + i], second = x[head * size + half + i];
      expected[head * size + i] = first * row[i] - second * row[half + i];
      expected[head * size + half + i] = second * row[i] + first * row[half + i];
    }
  }
  expect("rotary", out.data(), expected, 1e-6);
}

void test_linear() {
  for (const int64_t m : {1, 2, 5, 16}) {
    const int64_t n = 19, k = 83;
    const auto x = normals(m * k), w = normals(n * k), bias = normals(n);
    std::vector<float> out(static_cast<size_t>(m * n));
    kernels().linear({DType::kFloat32, x.data(), w.data(), bias.data(), out.data(), m, n, k}, 0, n);
    std::vector<double> expected(out.size());
    for (int64_t i = 0; i < m * n; ++i) {
      expected[i] = bias[i % n];
      for (int64_t j = 0; j < k; ++j) expected[i] += double{x[i / n * k + j]} * w[i % n * k + j];
    }
    expect("linear", out.data(), expected, 1e-6);
  }
}

// Stored rows of any bits, but for the factors, which are small floats.
std::vector<uint8_t> stored_rows(PackedFormat format, int64_t rows, int64_t k) {
  const PackedShape shape = shape_of(format);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * stored_row_bytes(shape, k)));
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(engine());
  const auto put_half = [&](size_t at) { bytes[at] = 0x12, bytes[at + 1] = engine() % 2 + 0x10; };
  if (is_float(shape)) {
    for (size_t i = 0; i < bytes.size(); i += static_cast<size_t>(shape.bits / 8)) {
      if (shape.bits == 32) {
        const float value = normal();
        std::memcpy(&bytes[i], &value, 4);
      } else {  // Exponents that give values around 1 in float16 and in bfloat16.
        bytes[i + 1] = static_cast<uint8_t>((format == PackedFormat::kFloat16 ? 0x38 : 0x3f) |
                                            (engine() % 2 << 7));
      }
    }
  } else if (format == PackedFormat::kInt8) {
    const float scale = 0.01f;
    for (int64_t row = 0; row < rows; ++row) std::memcpy(&bytes[row * (4 + k)], &scale, 4);
  } else {
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(shape.row_bytes)) {
      put_half(format == PackedFormat::kQ6_K ? at + 208 : at);
      if (shape.has_minima) put_half(at + 2);
    }
  }
  return bytes;
}

// x as kernels of blocks see it: 32 elements, or a row, to whole numbers of one scale.
void round_to_bytes(std::vector<double>* x, int64_t block) {
  for (size_t first = 0; first < x->size(); first += static_cast<size_t>(block)) {
    float most = 0;
    for (int64_t i = 0; i < block; ++i) {
      most = std::fmax(most, std::fabs(static_cast<float>((*x)[first + i])));
    }
    const float scale = most / 127.0f, inverse = scale > 0 ? 1.0f / scale : 0.0f;
    for (int64_t i = 0; i < block; ++i) {
      const float value = static_cast<float>((*x)[first + i]);
      (*x)[first + i] = double{scale} * std::nearbyint(value * inverse);
    }
  }
}

void test_packed(PackedFormat format, int64_t m) {
  const PackedShape shape = shape_of(format);
  const int64_t k = 512, n = 37, groups = (n + kGroupRows - 1) / kGroupRows;
  const auto stored = stored_rows(format, n, k);
  const int64_t bytes = group_bytes(shape, k), row_bytes = stored_row_bytes(shape, k);
  std::vector<uint8_t> weight(static_cast<size_t>(groups * bytes) + 64);
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first = group * kGroupRows,
                  count = n - first < kGroupRows ? n - first : kGroupRows;
    pack_group(format, stored.data() + first * row_bytes, count, k, weight.data() + group * bytes);
  }
  const auto x = normals(m * k), bias = normals(n);
  std::vector<char> values(static_cast<size_t>(m * kernels().prepared_bytes(format, k)));
  std::vector<QuantScale> scales(static_cast<size_t>(m * k / kSubBlock));
  kernels().prepare({DType::kFloat32, format, x.data(), k, values.data(), scales.data()}, 0, m);
  std::vector<float> out(static_cast<size_t>(m * n));
  std::vector<float> panel(static_cast<size_t>(kernels().panel_floats(format, k, m)));
  kernels().packed_linear({DType::kFloat32, format, values.data(), scales.data(), weight.data(),
                           bias.data(), out.data(), n, m, n, k},
                          0, groups, panel.empty() ? nullptr : panel.data());
  std::vector<double> seen(x.begin(), x.end()), expected(out.size());
  const bool whole = !is_float(shape) && kernels().prepared_bytes(format, k) < 4 * k;
  if (whole) round_to_bytes(&seen, format == PackedFormat::kInt8 ? k : kSubBlock);
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t i = 0; i < n; ++i) {
    row_values(format, weight.data(), i, k, row.data());
    for (int64_t t = 0; t < m; ++t) {
      double sum = bias[i];
      for (int64_t j = 0; j < k; ++j) sum += seen[t * k + j] * row[j];
      expected[t * n + i] = sum;
    }
  }
  const bool rounds = format == PackedFormat::kBFloat16 &&
                      std::string(kernels().name).find("bf16") != std::string::npos;
  // Where x lies between two whole numbers, a last bit decides which one it becomes.
  const double most = rounds ? 5e-3 : whole ? 2e-3 : 3e-6;
  expect(std::string("packed_linear of ") + shape.name, out.data(), expected, most);
}

// Heads as a quantized cache keeps them; what they then stand for takes their place.
std::vector<int8_t> quantize(std::vector<float>* heads, int64_t size) {
  const int64_t count = static_cast<int64_t>(heads->size()) / size, bytes = cached_head_bytes(size);
  std::vector<int8_t> kept(static_cast<size_t>(count * bytes));
  kernels().quantize_heads({DType::kFloat32, heads->data(), size, kept.data()}, 0, count);
  for (int64_t head = 0; head < count; ++head) {
    float scale;
    std::memcpy(&scale, &kept[head * bytes + size], sizeof scale);
    for (int64_t i = 0; i < size; ++i) {
      float& value = (*heads)[head * size + i];
      const float near = scale * static_cast<float>(kept[head * bytes + i]);
      if (!(std::fabs(value - near) <= 0.51f * scale)) {
        std::fprintf(stderr, "%s: quantize_heads: %g became %g\n", kernels().name, value, near);
        std::exit(1);
      }
      value = near;
    }
  }
  return kept;
}

void test_attention(bool quantized) {
  const int64_t heads = 6, kv_heads = 2, size = 80, block_size = 4, blocks = 30, length = 90;
  const int64_t width = kv_heads * size;
  auto keys = normals(blocks * block_size * width), values = normals(blocks * block_size * width);
  std::vector<int8_t> kept_keys, kept_values;
  if (quantized) kept_keys = quantize(&keys, size), kept_values = quantize(&values, size);
  std::vector<int32_t> table(static_cast<size_t>((length + block_size - 1) / block_size));
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<int32_t>(blocks - 1 - i);
  for (const int64_t tokens : {1, 2, 17}) {
    const auto query = normals(tokens * heads * size);
    std::vector<float> out(query.size());
    std::vector<float> scratch(static_cast<size_t>(attention_scratch(size)) + 16);
    auto* aligned = scratch.data();
    while (reinterpret_cast<uintptr_t>(aligned) % 64 != 0) ++aligned;
    const auto cached = [&](const std::vector<int8_t>& kept, const std::vector<float>& plain) {
      return quantized ? static_cast<const void*>(kept.data()) : plain.data();
    };
    const AttentionArgs args{DType::kFloat32,
                             quantized,
                             query.data(),
                             heads * size,
                             cached(kept_keys, keys),
                             cached(kept_values, values),
                             out.data(),
                             heads,
                             kv_heads,
                             size,
                             block_size,
                             0.1f,
                             33,
                             0.0f};
    for (int64_t head = 0; head < kv_heads; ++head) {
      kernels().attention(
          args, {table.data(), 0, tokens, length - tokens, head, 0, length, nullptr}, aligned);
    }
    std::vector<double> expected(out.size());
    for (int64_t row = 0; row < tokens * heads; ++row) {
      const int64_t position = length - tokens + row / heads,
                    head = row % heads / (heads / kv_heads);
      const int64_t low = position + 1 > 33 ? position + 1 - 33 : 0;
      std::vector<double> logits;
      double sum = 0;
      const auto at = [&](int64_t p) {
        return (table[p / block_size] * block_size + p % block_size) * width + head * size;
      };
      for (int64_t p = low; p <= position; ++p) {
        double logit = 0;
        for (int64_t d = 0; d < size; ++d) logit += double{query[row * size + d]} * keys[at(p) + d];
        logits.push_back(std::exp(0.1 * logit));
        sum += logits.back();
      }
      for (int64_t p = low; p <= position; ++p) {
        for (int64_t d = 0; d < size; ++d) {
          expected[row * size + d] += logits[p - low] / sum * values[at(p) + d];
        }
      }
    }
    expect(quantized ? "attention to bytes" : "attention", out.data(), expected, 3e-6);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t seed =
      count > 1 ? std::strtoull(arguments[1], nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::string names = available_isas() + ' ';
  for (size_t end; (end = names.find(' ')) != std::string::npos; names.erase(0, end + 1)) {
    engine.seed(seed);
    select_isa(names.substr(0, end));
    test_norm();
    test_gate();
    test_rotary();
    test_linear();
    for (const bool quantized : {false, true}) test_attention(quantized);
    for (int format = 0; format < kPackedFormats; ++format) {
      for (const int64_t m : {1, 2, 3, 4, 7, 13}) test_packed(static_cast<PackedFormat>(format), m);
    }
    std::printf("%s: passed\n", kernels().name);
  }
  return 0;
}
