// Choosing tokens from logits: the largest one, and draws within a threshold that is found without
// sorting a vocabulary.
//
// A row's weights exp((x - max) / temperature) are at most 1, and floats that are not negative are
// in the order of their bits. So a histogram over the upper bits says in which narrow range a limit
// falls (top-k by counts, top-p by sums), and only the weights of that range are sorted.
#pragma once

#include "runtime_kernels/table.h"
#include "runtime_kernels/vec.h"

namespace runtime_kernels::RUNTIME_ISA {

template <class T>
inline float maximum_of(const T* x, int64_t begin, int64_t end) {
  Vec top = Vec::set1(-__builtin_inff());
  int64_t i = begin;
  for (; i + Vec::kWidth <= end; i += Vec::kWidth) top = max(top, Vec::load(x + i));
  const float most = top.highest();
  float rest[Vec::kWidth];
  load_part(x + i, end - i).store(rest);
  float result = most;
  for (int64_t j = 0; j < end - i; ++j) result = rest[j] > result ? rest[j] : result;
  return result;
}

template <class T>
inline float largest_of(const LargestArgs& args, int64_t row, int64_t begin, int64_t end) {
  return maximum_of(static_cast<const T*>(args.logits) + row * args.vocab, begin, end);
}

// The first place of [begin, end) of a row where that value is; `begin` where it is nowhere.
template <class T>
inline int64_t place_in(const LargestArgs& args, int64_t row, int64_t begin, int64_t end,
                        float value) {
  const T* logits = static_cast<const T*>(args.logits) + row * args.vocab;
  for (int64_t i = begin; i < end; i += Vec::kWidth) {
    const int64_t n = end - i < Vec::kWidth ? end - i : Vec::kWidth;
    float lanes[Vec::kWidth];
    (n == Vec::kWidth ? Vec::load(logits + i) : load_part(logits + i, n)).store(lanes);
    for (int64_t lane = 0; lane < n; ++lane) {
      if (lanes[lane] == value) return i + lane;
    }
  }
  return begin;
}

constexpr int kBucketShift = 20;  // 8 exponent bits, 3 of the mantissa.
constexpr int64_t kBuckets = (0x3f800000 >> kBucketShift) + 1;
constexpr int64_t kSumBlock = 256;

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

// Descending, in place: heapsort (Williams 1964).
inline void sort_descending(float* x, int64_t n) {
  const auto sift = [x](int64_t root, int64_t count) {
    const float moved = x[root];
    for (int64_t child; (child = 2 * root + 1) < count; root = child) {
      if (child + 1 < count && x[child + 1] < x[child]) ++child;
      if (x[child] >= moved) break;
      x[root] = x[child];
      x[child] = moved;
    }
  };
  for (int64_t i = n / 2; i-- > 0;) sift(i, n);
  for (int64_t last = n; last-- > 1;) {
    const float least = x[0];
    x[0] = x[last];
    x[last] = least;
    sift(0, last);
  }
}

// One row's weights, and a histogram of them.
struct Weights {
  const float* weight;
  int64_t count;
  float* members;  // [count]: the weights of one bucket.
  int64_t counts[kBuckets];
  double sums[kBuckets];

  void fill() {
    for (int64_t b = 0; b < kBuckets; ++b) counts[b] = 0, sums[b] = 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t bucket = bits_of(weight[i]) >> kBucketShift;
      ++counts[bucket];
      sums[bucket] += static_cast<double>(weight[i]);
    }
  }

  // The bucket's weights from `least` up, largest first; returns how many.
  int64_t gather(int64_t bucket, float least) {
    int64_t n = 0;
    for (int64_t i = 0; i < count; ++i) {
      if (static_cast<int64_t>(bits_of(weight[i]) >> kBucketShift) == bucket &&
          weight[i] >= least) {
        members[n++] = weight[i];
      }
    }
    sort_descending(members, n);
    return n;
  }

  // The sum of the weights from `least` up, which falls in that bucket.
  double sum_from_bucket(int64_t bucket, float least) const {
    double total = 0;
    for (int64_t b = kBuckets; b-- > bucket + 1;) total += sums[b];
    for (int64_t i = 0; i < count; ++i) {
      const auto own = static_cast<int64_t>(bits_of(weight[i]) >> kBucketShift);
      if (own == bucket && weight[i] >= least) total += static_cast<double>(weight[i]);
    }
    return total;
  }

  // The k-th largest weight, k >= 1; zero where there are fewer.
  float kth(int64_t k) {
    int64_t above = 0;
    for (int64_t b = kBuckets; b-- > 0; above += counts[b]) {
      if (above + counts[b] < k) continue;
      gather(b, 0.0f);
      return members[k - above - 1];
    }
    return 0.0f;
  }

  // Of the weights from `least` up, the smallest before which less than `share` of their sum is.
  float nucleus(float least, float share) {
    const int64_t last = bits_of(least) >> kBucketShift;
    const double wanted = sum_from_bucket(last, least) * static_cast<double>(share);
    double before = 0;
    int64_t bucket = kBuckets - 1;
    for (; bucket > last && before + sums[bucket] < wanted; --bucket) before += sums[bucket];
    const int64_t n = gather(bucket, least);
    float kept = n > 0 ? members[0] : least;
    for (int64_t i = 0; i < n && before < wanted; ++i) {
      kept = members[i];
      before += static_cast<double>(members[i]);
    }
    return kept;
  }
};

// exp((x - max) / temperature) of a row.
template <class T>
inline void row_weights(const T* logits, int64_t vocab, float temperature, float* weight) {
  const Vec shift = Vec::set1(maximum_of(logits, 0, vocab)), scale = Vec::set1(1.0f / temperature);
  for_vectors(vocab, [&](int64_t at, auto load, auto store) {
    store(exp((load(logits + at) - shift) * scale), weight + at);
  });
}

// The sum of the weights from `least` up, and those of blocks of kSumBlock.
inline double sum_from(const float* weight, int64_t count, float least, float* blocks) {
  double total = 0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
    float lanes[16] = {};
    int64_t i = begin;
    for (; i + 16 <= end; i += 16) {
      for (int lane = 0; lane < 16; ++lane) {
        lanes[lane] += weight[i + lane] >= least ? weight[i + lane] : 0.0f;
      }
    }
    for (; i < end; ++i) lanes[0] += weight[i] >= least ? weight[i] : 0.0f;
    float sum = 0;
    for (int lane = 0; lane < 16; ++lane) sum += lanes[lane];
    blocks[begin / kSumBlock] = sum;
    total += static_cast<double>(sum);
  }
  return total;
}

// The first place at which the weights from `least` up sum to more than `wanted`, else the last.
inline int64_t place_of(const float* weight, int64_t count, float least, const float* blocks,
                        double wanted) {
  double sum = 0;
  int64_t kept = 0;
  for (int64_t begin = 0; begin < count; begin += kSumBlock) {
    const double block = static_cast<double>(blocks[begin / kSumBlock]);
    const int64_t end = begin + kSumBlock < count ? begin + kSumBlock : count;
    // A block that the sum ends in, or close to its end: rounding may differ between the two sums.
    const bool inside = (sum + block) * (1 + 1e-6) > wanted;
    double own = sum;
    for (int64_t i = begin; inside && i < end; ++i) {
      if (weight[i] < least || weight[i] <= 0.0f) continue;
      kept = i;
      own += static_cast<double>(weight[i]);
      if (own > wanted) return i;
    }
    sum = inside ? own : sum + block;
  }
  return kept;
}

template <class T>
inline int64_t draw_row(const DrawArgs& args, int64_t row, float* scratch) {
  const int64_t vocab = args.vocab;
  const T* logits = static_cast<const T*>(args.logits) + row * vocab;
  float* weight = scratch;
  row_weights(logits, vocab, args.temperature[row], weight);
  float least = args.min_p[row];
  const int64_t k = args.top_k[row];
  const bool few = k >= 1 && k < vocab, nucleus = args.top_p[row] < 1.0f;
  if (few || nucleus) {
    Weights weights;
    weights.weight = weight;
    weights.count = vocab;
    weights.members = scratch + vocab;
    weights.fill();
    if (few) {
      const float limit = weights.kth(k);
      least = limit > least ? limit : least;
    }
    if (nucleus) least = weights.nucleus(least, args.top_p[row]);
  }
  float* blocks = scratch + 2 * vocab;
  const double total = sum_from(weight, vocab, least, blocks);
  return place_of(weight, vocab, least, blocks, static_cast<double>(args.uniform[row]) * total);
}

template <class T>
inline void draw_rows(const DrawArgs& args, int64_t begin, int64_t end, float* scratch) {
  for (int64_t row = begin; row < end; ++row) args.out[row] = draw_row<T>(args, row, scratch);
}

// `counts` [vocab]: zeros, before and after.
template <class T>
inline void penalise_rows(const PenaltyArgs& args, int64_t begin, int64_t end, int32_t* counts) {
  for (int64_t row = begin; row < end; ++row) {
    T* logits = static_cast<T*>(args.logits) + row * args.vocab;
    const int32_t* tokens = args.token_ids;
    const int64_t first = args.starts[row], last = args.starts[row + 1];
    const int64_t output = args.output_starts[row];
    const float factor = args.repetition[row];
    for (int64_t i = output > first ? output : first; i < last; ++i) ++counts[tokens[i]];
    // Each token once: the first time it is met it is marked as done, below zero.
    for (int64_t i = first; i < last; ++i) {
      const int32_t count = counts[tokens[i]];
      if (count < 0) continue;
      counts[tokens[i]] = -1;
      float value = load_part(logits + tokens[i], 1).sum();
      value = value > 0 ? value / factor : value * factor;
      value -=
          (count > 0 ? args.presence[row] : 0.0f) + args.frequency[row] * static_cast<float>(count);
      store_part(Vec::set1(value), logits + tokens[i], 1);
    }
    for (int64_t i = first; i < last; ++i) counts[tokens[i]] = 0;
  }
}

}  // namespace runtime_kernels::RUNTIME_ISA
