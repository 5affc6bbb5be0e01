// Choosing tokens of rows of logits: the largest, or one drawn at random. A block a row.
//
// A draw sorts nothing. All filters keep tokens whose logit is at least some value, which is found
// by counting: tokens are put into bins by their probability over the largest's, 32 bins to each
// factor of 2, and the bin in which the limit falls is then searched by bisection. Counts and
// probabilities are added as integers, in which order does not matter: a row's token depends on
// that row alone.
#pragma once

#include <climits>

#include "runtime_kernels_cuda/block_reduce.cuh"
#include "runtime_kernels_cuda/ptx.cuh"
#include "runtime_kernels_cuda/sampling_args.h"

namespace runtime_kernels_cuda {

// Integers in the order of floats; no number is above all or below.
__host__ __device__ __forceinline__ uint32_t ordered(float x) {
  union {
    float value;
    uint32_t bits;
  } both{x};
  return both.bits ^ (both.bits >> 31 != 0 ? ~0u : 1u << 31);
}

__host__ __device__ __forceinline__ float from_ordered(uint32_t key) {
  union {
    uint32_t bits;
    float value;
  } both{key ^ (key >> 31 != 0 ? 1u << 31 : ~0u)};
  return both.value;
}

// Call f with a row's logits and their places, N at a time in each thread.
template <typename T, int N, typename F>
__device__ __forceinline__ void for_logits(const T* row, int vocab, F f) {
#pragma unroll 2
  for (int at = threadIdx.x * N; at < vocab; at += kFullBlock * N) {
    const auto values = load<Vec<T, N>>(row + at);
#pragma unroll
    for (int j = 0; j < N; ++j) f(to_float(values[j]), at + j);
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kFullBlock) largest_kernel(const LargestArgs args) {
  __shared__ unsigned long long shared[kWarp];
  allow_next();
  wait_for_previous();
  const T* row = static_cast<const T*>(args.logits) + blockIdx.x * args.vocab;
  unsigned long long best = 0;
  for_logits<T, N>(row, static_cast<int>(args.vocab), [&](float x, int at) {
    // The earlier of equal ones is the larger number.
    best = max(best, static_cast<unsigned long long>(ordered(x)) << 32 | (INT_MAX - at));
  });
  best = full_block_reduce(best, shared, Largest{});
  if (threadIdx.x == 0) args.out[blockIdx.x] = INT_MAX - static_cast<int>(best & ~0u);
}

constexpr int kBins = kFullBlock;   // One a thread.
constexpr float kOfOctave = 32.0f;  // Bins.
constexpr int kListed = 4096;       // Logits of a bin that are kept in shared memory.
constexpr int kCountShift = 44;     // Where the count of a bin is in its word.
constexpr float kUnit = 1 << 24;    // What the largest probability of a bin counts.

struct DrawShared {
  unsigned long long bins[kBins];
  uint32_t listed[kListed];
  unsigned long long reduced[kWarp];
  float of_warps[kWarp];
  int listed_count, found;
};

// Of a row: probabilities are over that of the largest logit.
template <typename T, int N>
struct DrawRow {
  const T* row;
  int vocab;
  float largest, scale, min_p;
  DrawShared& shared;

  // p = 2 ** -exponent(x)
  __device__ __forceinline__ float exponent(float x) const { return (largest - x) * scale; }
  __device__ __forceinline__ float probability(float x) const { return fast_exp2(-exponent(x)); }
  // False of no number, too.
  __device__ __forceinline__ bool allowed(float p) const { return p > 0.0f && p >= min_p; }

  __device__ __forceinline__ static int bin_of(float exponent) {
    return static_cast<int>(fminf(exponent * kOfOctave, kBins - 1));
  }
  // Probability in units of a bin.
  __device__ __forceinline__ static unsigned long long units(float exponent, int bin) {
    return static_cast<unsigned long long>(fast_exp2(bin / kOfOctave - exponent) * kUnit + 0.5f);
  }
  __device__ __forceinline__ static float unit_of(int bin) {
    return fast_exp2(-bin / kOfOctave) / kUnit;
  }

  // Counts and probabilities of all bins, in one word each.
  __device__ __forceinline__ void fill_bins() {
    shared.bins[threadIdx.x] = 0;
    __syncthreads();
    unsigned long long last = 0;  // The last bin may have most logits.
    for_logits<T, N>(row, vocab, [&](float x, int) {
      const float e = exponent(x);
      if (!allowed(fast_exp2(-e))) return;
      const int bin = bin_of(e);
      const unsigned long long word = 1ull << kCountShift | units(e, bin);
      if (bin == kBins - 1) {
        last += word;
      } else {
        atomicAdd(&shared.bins[bin], word);
      }
    });
    last = warp_reduce(last, Sum{});
    if (threadIdx.x % kWarp == 0) atomicAdd(&shared.bins[kBins - 1], last);
    __syncthreads();
  }

  // The first bin whose thread says that it reaches; kBins where none does.
  __device__ __forceinline__ int first_bin(bool reaches) {
    const int own = reaches ? threadIdx.x : kBins;
    // The smallest is the largest of what it lacks.
    return kBins - static_cast<int>(full_block_reduce(static_cast<unsigned long long>(kBins - own),
                                                      shared.reduced, Largest{}));
  }

  // Put a bin's logits into the list, if they fit.
  __device__ __forceinline__ void list(int bin) {
    if (threadIdx.x == 0) shared.listed_count = 0;
    __syncthreads();
    if (shared.bins[bin] >> kCountShift > kListed) return;
    for_logits<T, N>(row, vocab, [&](float x, int) {
      const float e = exponent(x);
      if (bin_of(e) == bin && allowed(fast_exp2(-e))) {
        shared.listed[atomicAdd(&shared.listed_count, 1)] = ordered(x);
      }
    });
    __syncthreads();
  }

  // Call f with the logits of the bin that was listed, as ordered integers.
  template <typename F>
  __device__ __forceinline__ void for_bin(int bin, F f) const {
    const int count = shared.listed_count;
    for (int i = threadIdx.x; i < count; i += kFullBlock) f(shared.listed[i]);
    if (count > 0) return;
    for_logits<T, N>(row, vocab, [&](float x, int) {
      const float e = exponent(x);
      if (bin_of(e) == bin && allowed(fast_exp2(-e))) f(ordered(x));
    });
  }

  // Of a bin's logits from `least` on: how many there are, or their probability in its units.
  __device__ __forceinline__ unsigned long long weight(int bin, uint32_t least, bool counted) {
    unsigned long long sum = 0;
    for_bin(bin, [&](uint32_t key) {
      if (key >= least) sum += counted ? 1 : units(exponent(from_ordered(key)), bin);
    });
    return full_block_reduce(sum, shared.reduced, Sum{});
  }

  // The largest value, not below `low`, from which on a bin's logits weigh so much.
  __device__ __forceinline__ uint32_t bisect(int bin, uint32_t low, unsigned long long wanted,
                                             bool counted) {
    unsigned long long most = 0;
    for_bin(bin, [&](uint32_t key) { most = max(most, static_cast<unsigned long long>(key)); });
    uint32_t high = full_block_reduce(most, shared.reduced, Largest{});
    while (low < high) {
      const uint32_t middle = low + (high - low + 1) / 2;
      if (weight(bin, middle, counted) >= wanted) {
        low = middle;
      } else {
        high = middle - 1;
      }
    }
    return low;
  }

  // The least logit that top-k and top-p keep, as an ordered integer.
  __device__ __forceinline__ uint32_t threshold(int top_k, float top_p) {
    fill_bins();
    const unsigned long long word = shared.bins[threadIdx.x];
    const unsigned long long own_count = word >> kCountShift;
    const float mass = (word & ((1ull << kCountShift) - 1)) * unit_of(threadIdx.x);
    const float masses = full_block_prefix(mass, shared.of_warps);
    const unsigned long long counts = full_block_prefix(own_count, shared.reduced);
    auto of_bin = [&](float x, int bin) {  // What another bin's thread has.
      if (static_cast<int>(threadIdx.x) == bin) shared.of_warps[0] = x;
      __syncthreads();
      x = shared.of_warps[0];
      __syncthreads();
      return x;
    };
    uint32_t least = 0;
    int limit = kBins;  // The bin of top-k's least.
    float total = of_bin(masses, kBins - 1);
    if (top_k > 0) {
      limit = first_bin(counts >= static_cast<unsigned long long>(top_k));
      if (limit < kBins) {
        if (static_cast<int>(threadIdx.x) == limit) shared.found = top_k - (counts - own_count);
        list(limit);
        least = bisect(limit, 0, shared.found, true);
        total = of_bin(masses - mass, limit) + weight(limit, least, false) * unit_of(limit);
      }
    }
    if (top_p >= 1.0f) return least;
    const float wanted = top_p * total;
    const int bin = first_bin(static_cast<int>(threadIdx.x) <= limit && masses >= wanted);
    if (bin == kBins) return least;
    if (bin != limit) {
      list(bin);
      least = 0;
    }
    const float lacking = (wanted - of_bin(masses - mass, bin)) / unit_of(bin);
    return bisect(bin, least, max(1ull, static_cast<unsigned long long>(fmaxf(lacking, 0.0f))),
                  false);
  }

  // --- The draw ---

  // Where the prefix sums of a warp's lanes first exceed `wanted`, which becomes what is wanted
  // of that lane. Where rounding leaves none: the last that has any.
  __device__ __forceinline__ static int choose(float sum, float& wanted) {
    const float prefix = warp_prefix(sum);
    const unsigned above = __ballot_sync(~0u, prefix > wanted && sum > 0.0f);
    const unsigned any = __ballot_sync(~0u, sum > 0.0f);
    const int lane = above != 0 ? __ffs(above) - 1 : any != 0 ? kWarp - 1 - __clz(any) : 0;
    wanted -= __shfl_sync(~0u, prefix - sum, lane);
    return lane;
  }

  __device__ __forceinline__ float kept(int at, uint32_t least) const {
    const float x = to_float(row[at]), p = probability(x);
    return allowed(p) && ordered(x) >= least ? p : 0.0f;
  }

  // The first token in the vocabulary's order at which what is kept exceeds `uniform` of it all.
  // Each warp sums a part of the row, then a part of the part in which that is.
  __device__ __forceinline__ int draw(uint32_t least, float uniform) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    int begin = 0, end = vocab;
    float wanted = 0.0f;
    for (int level = 0; level < 2; ++level) {
      const int part = ((end - begin + kFullBlock - 1) / kFullBlock) * kWarp;
      const int from = begin + warp * part, to = min(from + part, end);
      float sum = 0.0f;
#pragma unroll 4
      for (int at = from + lane; at < to; at += kWarp) sum += kept(at, least);
      sum = warp_reduce(sum, Sum{});
      if (lane == 0) shared.of_warps[warp] = sum;
      __syncthreads();
      sum = shared.of_warps[lane];
      if (level == 0) wanted = uniform * __shfl_sync(~0u, warp_prefix(sum), kWarp - 1);
      const int chosen = choose(sum, wanted);
      begin += chosen * part;
      end = min(begin + part, end);
      __syncthreads();
    }
    int last = 0;
    for (int at = begin; at < end; at += kWarp) {
      const float p = at + lane < end ? kept(at + lane, least) : 0.0f;
      const float prefix = warp_prefix(p);
      const unsigned above = __ballot_sync(~0u, prefix > wanted && p > 0.0f);
      const unsigned any = __ballot_sync(~0u, p > 0.0f);
      if (above != 0) return at + __ffs(above) - 1;
      if (any != 0) last = at + kWarp - 1 - __clz(any);
      wanted -= __shfl_sync(~0u, prefix, kWarp - 1);
    }
    return last;
  }
};

template <typename T, int N>
__global__ void __launch_bounds__(kFullBlock) draw_kernel(const DrawArgs args) {
  __shared__ DrawShared shared;
  allow_next();
  wait_for_previous();
  const int vocab = static_cast<int>(args.vocab);
  const T* row = static_cast<const T*>(args.logits) + blockIdx.x * args.vocab;
  float largest = -INFINITY;
  for_logits<T, N>(row, vocab, [&](float x, int) { largest = fmaxf(largest, x); });
  largest = full_block_reduce(largest, shared.of_warps, Largest{});
  const int top_k = args.top_k[blockIdx.x];
  const float top_p = args.top_p[blockIdx.x];
  DrawRow<T, N> drawn{
      row, vocab, largest, kLog2E / args.temperature[blockIdx.x], args.min_p[blockIdx.x], shared};
  uint32_t least = 0;
  if (top_k == 1) {
    least = ordered(largest);
  } else if ((top_k > 0 && top_k < vocab) || top_p < 1.0f) {
    least = drawn.threshold(top_k < vocab ? top_k : 0, top_p);
  }
  const int token = drawn.draw(least, args.uniform[blockIdx.x]);
  if (threadIdx.x == 0) args.out[blockIdx.x] = token;
}

// f<N>() with as many elements at once as rows of that width allow.
template <typename T, typename F>
Error with_row_vectors(const void* rows, int64_t width, F f) {
  constexpr int N = vector_width<T>;
  const bool wide = width % N == 0 && aligned(rows);
  return wide ? f(std::integral_constant<int, N>{}) : f(std::integral_constant<int, 1>{});
}

template <typename T>
Error launch_largest(const LargestArgs& args, Stream stream) {
  return with_row_vectors<T>(args.logits, args.vocab, [&](auto n) {
    return launch(largest_kernel<T, n.value>, dim3(args.rows), dim3(kFullBlock), 0, stream, args);
  });
}

template <typename T>
Error launch_draw(const DrawArgs& args, Stream stream) {
  return with_row_vectors<T>(args.logits, args.vocab, [&](auto n) {
    return launch(draw_kernel<T, n.value>, dim3(args.rows), dim3(kFullBlock), 0, stream, args);
  });
}

}  // namespace runtime_kernels_cuda
