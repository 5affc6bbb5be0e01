// The kernels that choose tokens on the host (see emulated/) against plain code in double
// precision.
#include <numeric>
#include <random>

#include "runtime_kernels_cuda/penalties.cuh"
#include "runtime_kernels_cuda/sampling.cuh"

namespace runtime_kernels_cuda {
namespace {

struct Filters {
  float temperature;
  int top_k;
  float top_p, min_p;
};

// Probabilities that the filters keep, not divided by their sum.
std::vector<double> kept(const std::vector<double>& logits, const Filters& f) {
  const size_t vocab = logits.size();
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> p(vocab);
  for (size_t i = 0; i < vocab; ++i) {
    p[i] = std::exp((logits[i] - largest) / f.temperature);
    if (p[i] < f.min_p) p[i] = 0.0;
  }
  std::vector<double> sorted(p);
  std::sort(sorted.rbegin(), sorted.rend());
  const double least = f.top_k >= 1 && f.top_k < int(vocab) ? sorted[f.top_k - 1] : 0.0;
  const double total = std::accumulate(p.begin(), p.end(), 0.0,
                                       [&](double a, double b) { return b < least ? a : a + b; });
  double above = 0.0, last = 0.0;
  for (double x : sorted) {
    if (x < least || above >= f.top_p * total) break;
    last = x;
    above += x;
  }
  for (double& x : p) {
    if (x < std::max(last, least)) x = 0.0;
  }
  return p;
}

template <typename T>
bool draws(int vocab, float spread, const Filters& f, std::mt19937& generator, bool ties = false) {
  std::normal_distribution<float> normal(0.0f, spread);
  constexpr int kRows = 3;
  std::vector<T> logits(kRows * vocab);
  for (T& x : logits) x = from_float<T>(ties ? std::round(normal(generator)) : normal(generator));
  std::vector<float> temperature(kRows, f.temperature), top_p(kRows, f.top_p),
      min_p(kRows, f.min_p);
  std::vector<float> uniform(kRows);
  std::vector<int> top_k(kRows, f.top_k);
  std::vector<std::vector<double>> expected;
  for (int r = 0; r < kRows; ++r) {
    std::vector<double> row;
    for (int i = 0; i < vocab; ++i) row.push_back(to_float(logits[r * vocab + i]));
    expected.push_back(kept(row, f));
    uniform[r] = r == 0 ? 0.0f : std::uniform_real_distribution<float>(0.0f, 1.0f)(generator);
  }
  std::vector<int64_t> out(kRows, -1);
  DrawArgs args{};
  args.logits = logits.data();
  args.temperature = temperature.data();
  args.top_k = top_k.data();
  args.top_p = top_p.data();
  args.min_p = min_p.data();
  args.uniform = uniform.data();
  args.out = out.data();
  args.rows = kRows;
  args.vocab = vocab;
  launch_draw<T>(args, nullptr);
  for (int r = 0; r < kRows; ++r) {
    const auto& p = expected[r];
    const int token = static_cast<int>(out[r]);
    if (token < 0 || token >= vocab || p[token] <= 0.0) return false;
    // In its interval, but for the rounding of sums.
    const double total = std::accumulate(p.begin(), p.end(), 0.0), wanted = uniform[r] * total;
    const double before = std::accumulate(p.begin(), p.begin() + token, 0.0);
    if (wanted < before - 2e-6 * total || wanted > before + p[token] + 2e-6 * total) return false;
  }
  return true;
}

template <typename T>
bool finds_largest(int vocab, std::mt19937& generator) {
  constexpr int kRows = 2;
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<T> logits(kRows * vocab);
  for (T& x : logits) x = from_float<T>(-std::abs(normal(generator)) - 1.0f);
  std::vector<int64_t> out(kRows, -1);
  int at[kRows];
  for (int r = 0; r < kRows; ++r) {
    at[r] = static_cast<int>(generator() % vocab);
    logits[r * vocab + at[r]] = from_float<T>(-0.5f);
    if (at[r] + 1 < vocab) logits[r * vocab + vocab - 1] = from_float<T>(-0.5f);  // A tie.
  }
  LargestArgs args{DType::kFloat32, logits.data(), out.data(), kRows, vocab};
  launch_largest<T>(args, nullptr);
  return out[0] == at[0] && out[1] == at[1];
}

bool penalises(int vocab, std::mt19937& generator) {
  const std::vector<int> lengths{40, 0, 1, 900};
  const int rows = static_cast<int>(lengths.size());
  std::vector<int> starts{0}, output, tokens;
  for (int length : lengths) {
    output.push_back(starts.back() + length / 3);
    starts.push_back(starts.back() + length);
    for (int i = 0; i < length; ++i) tokens.push_back(static_cast<int>(generator() % vocab));
  }
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<float> logits(rows * vocab);
  for (float& x : logits) x = normal(generator);
  const std::vector<float> repetition{1.3f, 1.1f, 0.8f, 1.0f}, presence{0.5f, 0.2f, 0.0f, 0.0f},
      frequency{-0.2f, 0.1f, 0.0f, 0.3f};
  std::vector<float> wanted(logits);
  for (int r = 0; r < rows; ++r) {
    std::vector<int> counts(vocab, -1);
    for (int i = starts[r]; i < starts[r + 1]; ++i) {
      int& count = counts[tokens[i]];
      count = std::max(count, 0) + (i >= output[r]);
    }
    for (int v = 0; v < vocab; ++v) {
      if (counts[v] < 0) continue;
      float& x = wanted[r * vocab + v];
      x = penalised(x, counts[v], repetition[r], presence[r], frequency[r]);
    }
  }
  PenaltyArgs args{DType::kFloat32, logits.data(),         tokens.data(),
                   starts.data(),   output.data(),         repetition.data(),
                   presence.data(), frequency.data(),      rows,
                   vocab,           int64_t(tokens.size())};
  launch_penalties<float>(args, nullptr);
  return logits == wanted;
}

int check_all() {
  const unsigned seed = std::random_device{}();
  std::mt19937 generator(seed);
  std::printf("seed %u\n", seed);
  int failed = 0;
  auto note = [&](bool good, const char* what, int vocab) {
    std::printf("%s %s of %d\n", good ? "ok  " : "FAIL", what, vocab);
    failed += !good;
  };
  const struct {
    const char* name;
    Filters filters;
  } all[] = {
      {"temperature", {0.8f, 0, 1.0f, 0.0f}},     {"greedy", {1.0f, 1, 1.0f, 0.0f}},
      {"top-k", {1.2f, 50, 1.0f, 0.0f}},          {"top-p", {0.7f, 0, 0.9f, 0.0f}},
      {"min-p", {1.0f, 0, 1.0f, 0.05f}},          {"top-k, top-p", {0.9f, 20, 0.8f, 0.0f}},
      {"all filters", {1.1f, 300, 0.7f, 0.001f}}, {"a small top-p", {1.0f, 0, 1e-6f, 0.0f}},
      {"a cold top-p", {0.05f, 0, 0.99f, 0.0f}},
  };
  for (int vocab : {6000, 1001, 33, 1}) {
    for (const auto& [name, filters] : all) {
      const bool good = vocab % 2 == 0 ? draws<float>(vocab, 3.0f, filters, generator)
                                       : draws<BFloat16>(vocab, 3.0f, filters, generator);
      note(good, name, vocab);
    }
    note(finds_largest<float>(vocab, generator), "largest", vocab);
    note(finds_largest<Float16>(vocab, generator), "largest", vocab);
  }
  // More logits in a bin than fit the list, and many equal ones.
  note(draws<float>(9000, 1e-3f, {1.0f, 700, 1.0f, 0.0f}, generator), "flat top-k", 9000);
  note(draws<float>(9000, 1e-3f, {1.0f, 0, 0.5f, 0.0f}, generator), "flat top-p", 9000);
  note(draws<float>(9000, 1e-3f, {1.0f, 700, 0.5f, 0.0f}, generator), "flat top-k, top-p", 9000);
  note(draws<float>(6000, 1.0f, {1.0f, 100, 0.9f, 0.0f}, generator, true), "equal logits", 6000);
  for (int vocab : {30000, 50, 7}) note(penalises(vocab, generator), "penalties", vocab);
  return failed;
}

}  // namespace
}  // namespace runtime_kernels_cuda

int main() { return runtime_kernels_cuda::check_all() != 0; }
