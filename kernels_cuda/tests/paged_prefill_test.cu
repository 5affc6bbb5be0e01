// Compares paged prefill with a plain softmax in float32 on random inputs, and times it:
//   paged_prefill_test [check] [time]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "launchers.h"
#include "runtime_kernels_cuda/vec.cuh"

namespace runtime_kernels_cuda {
namespace {

void must(Error error, const char* what) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
  std::exit(2);
}

template <typename T>
struct Device {
  T* data = nullptr;
  size_t count = 0;
  explicit Device(size_t n) : count(n) {
    must(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)), "cudaMalloc");
  }
  explicit Device(const std::vector<T>& from) : Device(from.size()) {
    must(cudaMemcpy(data, from.data(), count * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~Device() { cudaFree(data); }
  Device(const Device&) = delete;
  void poison() { must(cudaMemset(data, 0xff, count * sizeof(T)), "cudaMemset"); }  // NaN
  std::vector<T> host() const {
    std::vector<T> result(count);
    must(cudaMemcpy(result.data(), data, count * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return result;
  }
};

__device__ float normal(uint64_t seed, uint64_t i) {
  auto mix = [](uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
  };
  const uint64_t bits = mix(mix(seed) + i * 0x9e3779b97f4a7c15ull);
  const float u = (static_cast<uint32_t>(bits) + 1.0f) * 0x1p-32f, v = (bits >> 32) * 0x1p-32f;
  return sqrtf(-2.0f * logf(fminf(u, 1.0f))) * cospif(2.0f * v);
}

template <typename T>
__global__ void fill(T* x, size_t count, uint64_t seed) {
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < count;
       i += size_t{gridDim.x} * blockDim.x) {
    x[i] = from_float<T>(normal(seed, i));
  }
}

// Slots of a request from `length` on to the end of its last page are no numbers.
template <typename T>
__global__ void poison_slots(T* cache, const int* slots, int count, int64_t half, int row) {
  for (int i = blockIdx.x; i < count; i += gridDim.x) {
    for (int j = threadIdx.x; j < 2 * row; j += blockDim.x) {
      cache[(j >= row ? half : 0) + int64_t{slots[i]} * row + j % row] = from_float<T>(NAN);
    }
  }
}

// A block a token and head; scores in shared memory.
template <typename T>
__global__ void reference(PagedPrefillArgs args, const int* request_of, float* out, float* lse) {
  extern __shared__ float scores[];
  __shared__ float reduced[32];
  const int token = blockIdx.x, head = blockIdx.y, size = args.head_size;
  const int kv_head = head / (args.heads / args.kv_heads), request = request_of[token];
  const int count = args.query_start_loc[request + 1] - args.query_start_loc[request];
  const int position = args.seq_lens[request] - count + token - args.query_start_loc[request];
  const int low = args.window > 0 ? max(0, position - args.window + 1) : 0;
  const T* query = static_cast<const T*>(args.query) + token * args.query_stride + head * size;
  const T* keys = static_cast<const T*>(args.kv_cache);
  const T* values = keys + args.blocks * args.block_size * args.kv_heads * size;
  auto place = [&](int key) {
    const int64_t block = args.block_table[request * args.table_stride + key / args.block_size];
    return ((block * args.block_size + key % args.block_size) * args.kv_heads + kv_head) * size;
  };
  auto all = [&](float x, bool sum) {
    for (int o = 16; o > 0; o /= 2) {
      const float other = __shfl_xor_sync(~0u, x, o);
      x = sum ? x + other : fmaxf(x, other);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0) reduced[threadIdx.x / 32] = x;
    __syncthreads();
    x = reduced[0];
    for (int w = 1; w < blockDim.x / 32; ++w) x = sum ? x + reduced[w] : fmaxf(x, reduced[w]);
    return x;
  };
  float most = -INFINITY, total = 0.0f;
  for (int key = low + threadIdx.x; key <= position; key += blockDim.x) {
    const T* at = keys + place(key);
    float dot = 0.0f;
    for (int d = 0; d < size; ++d) dot += to_float(query[d]) * to_float(at[d]);
    dot *= args.scale;
    if (args.soft_cap > 0) dot = args.soft_cap * tanhf(dot / args.soft_cap);
    scores[key - low] = dot;
    most = fmaxf(most, dot);
  }
  most = all(most, false);
  for (int i = threadIdx.x; i <= position - low; i += blockDim.x) {
    scores[i] = expf(scores[i] - most);
    total += scores[i];
  }
  total = all(total, true);
  for (int d = threadIdx.x; d < size; d += blockDim.x) {
    float sum = 0.0f;
    for (int key = low; key <= position; ++key)
      sum += scores[key - low] * to_float(values[place(key) + d]);
    out[(int64_t{token} * args.heads + head) * size + d] = sum / total;
  }
  if (threadIdx.x == 0) lse[head * args.tokens + token] = most + logf(total);
}

struct Request {
  int count;   // Tokens of this step.
  int before;  // Tokens of earlier ones.
};

struct Case {
  std::vector<Request> requests;
  int heads = 8, kv_heads = 2, head_size = 128, block_size = 16;
  int window = 0;
  float soft_cap = 0.0f;
  bool merged = false;  // Queries are a slice of wider rows.
  int decodes = 0;      // Requests in front that have no tiles.
};

using Kernel = Error (*)(const PagedPrefillArgs&, Stream);

template <typename T>
struct Problem {
  const Case& c;
  std::vector<int> starts{0}, lengths, request_of, tile_request, tile_first, table, behind;
  int blocks = 0, pages = 0;
  std::vector<std::pair<int, int>> tiles;

  explicit Problem(const Case& given, uint64_t seed) : c(given) {
    std::mt19937_64 random(seed);
    for (size_t r = 0; r < c.requests.size(); ++r) {
      const auto [count, before] = c.requests[r];
      starts.push_back(starts.back() + count);
      lengths.push_back(before + count);
      request_of.insert(request_of.end(), count, static_cast<int>(r));
      const int of = static_cast<int>(ceil_div(lengths.back(), c.block_size));
      blocks += of;
      pages = std::max(pages, of);
      if (static_cast<int>(r) < c.decodes) continue;
      for (int at = 0; at < count; at += paged_prefill_rows(c.head_size)) {
        tiles.emplace_back(static_cast<int>(r), at);
      }
    }
    std::stable_sort(tiles.begin(), tiles.end(),
                     [](auto a, auto b) { return a.second > b.second; });
    for (const auto& [request, first] : tiles) {
      tile_request.push_back(request);
      tile_first.push_back(first);
    }
    for (int i = 0; i < 3; ++i) {  // As in a graph of a fixed grid.
      tile_request.push_back(-1);
      tile_first.push_back(1 << 30);
    }
    blocks += 3;
    pages += 2;
    std::vector<int> order(blocks);
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    table.assign(pages * lengths.size(), -12345678);
    int next = 0;
    for (size_t r = 0; r < lengths.size(); ++r) {
      const int of = static_cast<int>(ceil_div(lengths[r], c.block_size));
      for (int i = 0; i < of; ++i) table[r * pages + i] = order[next++];
      for (int key = lengths[r]; key < of * c.block_size; ++key) {
        behind.push_back(table[r * pages + of - 1] * c.block_size + key % c.block_size);
      }
    }
  }
};

template <typename T>
struct Buffers {
  Device<T> query, cache, out;
  Device<int> starts, lengths, request_of, tile_request, tile_first, table, behind;
  Device<float> lse;
  PagedPrefillArgs args;

  Buffers(const Problem<T>& p, uint64_t seed)
      : query(size_t(p.starts.back()) * row(p.c)),
        cache(size_t{2} * p.blocks * p.c.block_size * p.c.kv_heads * p.c.head_size),
        out(size_t(p.starts.back()) * p.c.heads * p.c.head_size),
        starts(p.starts),
        lengths(p.lengths),
        request_of(p.request_of),
        tile_request(p.tile_request),
        tile_first(p.tile_first),
        table(p.table),
        behind(p.behind),
        lse(size_t(p.starts.back()) * p.c.heads) {
    const Case& c = p.c;
    fill<<<1024, 256>>>(query.data, query.count, seed);
    fill<<<1024, 256>>>(cache.data, cache.count, seed + 1);
    if (behind.count > 0) {
      poison_slots<<<128, 128>>>(cache.data, behind.data, int(behind.count),
                                 int64_t(cache.count / 2), c.kv_heads * c.head_size);
    }
    args = PagedPrefillArgs{std::is_same_v<T, BFloat16> ? DType::kBFloat16 : DType::kFloat16,
                            query.data,
                            row(c),
                            cache.data,
                            table.data,
                            p.pages,
                            lengths.data,
                            starts.data,
                            tile_request.data,
                            tile_first.data,
                            out.data,
                            lse.data,
                            p.starts.back(),
                            p.blocks,
                            int(p.tile_request.size()),
                            c.block_size,
                            c.heads,
                            c.kv_heads,
                            c.head_size,
                            1.0f / std::sqrt(float(c.head_size)),
                            c.window,
                            c.soft_cap};
    must(cudaDeviceSynchronize(), "fill");
  }
  static int64_t row(const Case& c) {
    return int64_t{c.head_size} * (c.merged ? c.heads + 2 * c.kv_heads : c.heads);
  }
};

template <typename T>
bool check(const char* name, Kernel kernel, const Case& c, uint64_t seed) {
  const Problem<T> problem(c, seed);
  Buffers<T> b(problem, seed);
  const int tokens = problem.starts.back(),
            longest = *std::max_element(problem.lengths.begin(), problem.lengths.end());
  Device<float> want(size_t(tokens) * c.heads * c.head_size), want_lse(size_t(tokens) * c.heads);
  must(cudaFuncSetAttribute(reference<T>, cudaFuncAttributeMaxDynamicSharedMemorySize, longest * 4),
       "reference");
  reference<T><<<dim3(tokens, c.heads), 128, longest * 4>>>(b.args, b.request_of.data, want.data,
                                                            want_lse.data);
  must(cudaDeviceSynchronize(), "reference");
  b.out.poison();
  b.lse.poison();
  must(kernel(b.args, nullptr), name);
  must(cudaDeviceSynchronize(), name);
  const auto out = b.out.host();
  const auto ref = want.host(), lse = b.lse.host(), ref_lse = want_lse.host();
  double difference = 0.0, norm = 0.0, worst_lse = 0.0, worst_row = 0.0;
  bool left_alone = true;
  const int row = c.heads * c.head_size;
  for (int token = 0; token < tokens; ++token) {
    const bool has_tile = problem.request_of[token] >= c.decodes;
    double of_row = 0.0, norm_row = 0.0;
    for (int i = 0; i < row; ++i) {
      const double got = to_float(out[size_t(token) * row + i]),
                   wanted = ref[size_t(token) * row + i];
      if (has_tile) {
        of_row += (got - wanted) * (got - wanted);
        norm_row += wanted * wanted;
      } else {
        left_alone = left_alone && std::isnan(got);
      }
    }
    if (!has_tile) continue;
    difference += of_row;
    norm += norm_row;
    if (!(std::sqrt(of_row / norm_row) <= worst_row)) worst_row = std::sqrt(of_row / norm_row);
    for (int head = 0; head < c.heads; ++head) {
      const double off =
          std::abs(lse[size_t(head) * tokens + token] - ref_lse[size_t(head) * tokens + token]);
      if (!(off <= worst_lse)) worst_lse = off;
    }
  }
  const double relative = std::sqrt(difference / norm);
  const double limit = std::is_same_v<T, BFloat16> ? 5e-3 : 1e-3;
  const bool good = relative < limit && worst_row < 4 * limit && worst_lse < 1e-3 && left_alone;
  std::printf(
      "%s %-7s %-4s heads %d/%d size %d block %d window %d cap %g merged %d tokens %d:"
      " error %.2e, worst row %.2e, lse %.2e%s\n",
      good ? "ok  " : "FAIL", name, std::is_same_v<T, BFloat16> ? "bf16" : "f16", c.heads,
      c.kv_heads, c.head_size, c.block_size, c.window, c.soft_cap, c.merged, tokens, relative,
      worst_row, worst_lse, left_alone ? "" : ", wrote rows without a tile");
  return good;
}

void measure(const char* name, Kernel kernel, const char* label, const Case& c, double peer) {
  const Problem<BFloat16> problem(c, 7);
  Buffers<BFloat16> b(problem, 7);
  b.args.lse = nullptr;
  double pairs = 0.0;
  for (const auto& [count, before] : c.requests)
    pairs += double(count) * before + 0.5 * count * count;
  const double flops = 4.0 * pairs * c.heads * c.head_size;
  cudaEvent_t from, to;
  must(cudaEventCreate(&from), "event");
  must(cudaEventCreate(&to), "event");
  std::vector<float> times;
  for (int i = 0; i < 12; ++i) {
    must(cudaEventRecord(from), "event");
    for (int j = 0; j < 3; ++j) must(kernel(b.args, nullptr), name);
    must(cudaEventRecord(to), "event");
    must(cudaEventSynchronize(to), name);
    float ms;
    must(cudaEventElapsedTime(&ms, from, to), "event");
    if (i >= 3) times.push_back(ms / 3);
  }
  std::sort(times.begin(), times.end());
  const double ms = times[times.size() / 2];
  std::printf("time %-7s %-28s %9.1f us  %6.1f TFLOP/s", name, label, ms * 1e3, flops / ms * 1e-9);
  if (peer > 0) std::printf("  (FlashAttention-3: %.1f)", peer);
  std::printf("\n");
}

std::vector<Case> cases() {
  const std::vector<Request> ragged{{1, 0},    {15, 0},    {17, 300}, {127, 0},  {129, 1},
                                    {1000, 0}, {128, 128}, {1, 999},  {200, 777}};
  std::vector<Case> all;
  for (int size : {128, 64}) {
    all.push_back({{{128, 0}}, 1, 1, size});
    all.push_back({{{256, 0}}, 4, 1, size});
    all.push_back({ragged, 8, 2, size});
    all.push_back({ragged, 8, 8, size, 32, 0, 0.0f, true});
    all.push_back({ragged, 8, 1, size, 64, 100, 0.0f, true, 2});
    all.push_back({ragged, 8, 2, size, 16, 0, 20.0f});
    all.push_back({ragged, 4, 2, size, 16, 130, 5.0f, true});
    all.push_back({ragged, 4, 2, size, 128, 1});
    all.push_back({ragged, 4, 2, size, 256, 700, 0.0f, true, 1});
    all.push_back({{{2300, 0}, {700, 1500}, {64, 3000}}, 8, 2, size, 16, 0, 0.0f, true});
  }
  return all;
}

std::vector<Case> other_sizes() {
  const std::vector<Request> ragged{{1, 0}, {17, 300}, {129, 1}, {400, 0}, {200, 777}};
  std::vector<Case> all;
  for (int size : {80, 96, 112, 160, 192, 240, 256}) {
    all.push_back({ragged, 4, 2, size, 16, 0, 0.0f, true});
    all.push_back({ragged, 4, 1, size, 48, 90, 10.0f, false, 1});
  }
  return all;
}

}  // namespace
}  // namespace runtime_kernels_cuda

int main(int argc, char** argv) {
  using namespace runtime_kernels_cuda;
  auto asked = [&](const char* what) {
    return argc == 1 ||
           std::any_of(argv + 1, argv + argc, [&](char* a) { return !std::strcmp(a, what); });
  };
  struct Named {
    const char* name;
    Kernel kernel;
    bool any_size;
  };
  const std::vector<Named> kernels{{"hopper", paged_prefill_hopper, false}};
  const uint64_t seed = std::random_device{}();
  int failed = 0, run = 0;
  if (asked("check")) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    for (const auto& [name, kernel, any_size] : kernels) {
      auto all = cases();
      if (any_size) {
        for (const Case& c : other_sizes()) all.push_back(c);
      }
      for (const Case& c : all) {
        failed += !check<BFloat16>(name, kernel, c, seed + run);
        failed += !check<Float16>(name, kernel, c, seed + run);
        run += 2;
      }
    }
    std::printf("%d of %d failed\n", failed, run);
  }
  if (asked("time")) {
    for (const auto& [name, kernel, any_size] : kernels) {
      measure(name, kernel, "1 x 8192", {{{8192, 0}}, 32, 8}, 626.0);
      measure(name, kernel, "1 x 8192 again", {{{8192, 0}}, 32, 8}, 626.0);
      measure(name, kernel, "4 x 2048", {std::vector<Request>(4, {2048, 0}), 32, 8}, 456.5);
      measure(name, kernel, "1 x 32768", {{{32768, 0}}, 32, 8}, 594.7);
      measure(name, kernel, "16 x 512", {std::vector<Request>(16, {512, 0}), 32, 8}, 0);
      measure(name, kernel, "2048 after 6144", {{{2048, 6144}}, 32, 8}, 0);
      measure(name, kernel, "1 x 8192, size 64", {{{8192, 0}}, 32, 8, 64}, 0);
    }
  }
  return failed != 0;
}
