// Causal attention of many tokens to a paged cache, on compute capability 9.0a, for head sizes 64
// and 128. After FlashAttention-3 (Shah et al. 2024, arXiv:2407.08608): a warp copies queries,
// keys and values to shared memory; two warpgroups of 64 rows each multiply, one while the other
// computes its softmax, and each its next scores while its last weights are applied.
#pragma once

#include <climits>

#include "runtime_kernels_cuda/hopper.cuh"
#include "runtime_kernels_cuda/paged_prefill_args.h"
#include "runtime_kernels_cuda/softmax_rows.cuh"
#include "runtime_kernels_cuda/wgmma.cuh"

namespace runtime_kernels_cuda::hopper {

constexpr int kRows = 64;      // Of a warpgroup.
constexpr int kConsumers = 2;  // Warpgroups that multiply.
constexpr int kTile = kRows * kConsumers;
constexpr int kKeys = 128;  // Of a round.
constexpr int kStages = 2;  // Rounds of keys, and of values, in shared memory.
constexpr int kThreads = (1 + kConsumers) * kWarpgroup;

static_assert(kTile == paged_prefill_rows(64) && kTile == paged_prefill_rows(128));

// A tile of one head's queries, as the warp that copies tells those that multiply.
struct Work {
  int head;    // -1: there is no more.
  int token;   // The first, of all.
  int rows;    // How many the tile has.
  int before;  // Position of the first, in its request.
  int length;  // Keys of the request.

  // The last round of keys, which comes first, and the first.
  __device__ __forceinline__ int high() const { return (before + rows - 1) / kKeys; }
  __device__ __forceinline__ int low(int window) const {
    return max(0, before - window + 1) / kKeys;
  }
};

// Tiles in memory: [8 rows][64 columns] is 1024 bytes (see wgmma.cuh). Queries are
// [columns / 64][rows / 8] of them, keys and values [keys / 8][columns / 64], so that a page is
// one box of the cache's map.
template <typename T, int D>
struct alignas(1024) PrefillShared {
  T queries[kConsumers][kRows * D];
  T keys[kStages][kKeys * D];
  T values[kStages][kKeys * D];
  Barrier queries_full, queries_empty;
  Barrier keys_full[kStages], keys_empty[kStages];
  Barrier values_full[kStages], values_empty[kStages];
  Work work;
};

// Half of what an int holds, so that a position less it does.
constexpr int kNoWindow = INT_MAX / 2;
__device__ __forceinline__ int no_window(int window) { return window > 0 ? window : kNoWindow; }

// Where a ring of stages is: the n-th use of the ring is of stage n % kStages.
__device__ __forceinline__ uint32_t parity_of(int n) { return n / kStages & 1; }

// The warp that copies.
template <typename T, int D>
__device__ __forceinline__ void produce(PrefillShared<T, D>& shared, const CUtensorMap& query_map,
                                        const CUtensorMap& cache_map,
                                        const PagedPrefillArgs& args) {
  const int lane = threadIdx.x % kWarp;
  const int group = args.heads / args.kv_heads, window = no_window(args.window);
  // A box is a page, or a part of it; each lane copies one.
  const int shift = __ffs(args.block_size) - 1;
  const int box_rows = min(args.block_size, kKeys), boxes = kKeys / box_rows;
  const int values_at = static_cast<int>(args.blocks * args.block_size / 8);
  const int items = args.tiles * args.heads;
  int rounds = 0, given = 0;

  for (int item = blockIdx.x; item < items; item += gridDim.x) {
    const int tile = item / args.heads, request = args.tile_request[tile];
    if (request < 0) continue;
    Work work;
    work.head = item - tile * args.heads;
    const int first = args.tile_first[tile], begin = args.query_start_loc[request];
    const int count = args.query_start_loc[request + 1] - begin;
    work.length = args.seq_lens[request];
    work.token = begin + first;
    work.rows = min(count - first, kTile);
    work.before = work.length - count + first;
    const int* table = args.block_table + request * args.table_stride;
    const int kv_head = work.head / group;

    // Of this lane's page in round n: the cache's group of 8 slots. Pages past the end are not in
    // the table: the last takes their place.
    auto find = [&](int n) {
      const int key = n * kKeys + lane * box_rows;
      if (lane >= boxes) return 0;
      const int block = table[min(key, work.length - 1) >> shift];
      return ((block << shift) + (key & (args.block_size - 1))) / 8;
    };
    auto copy = [&](T* to, Barrier& full, Barrier& empty, int round, int at) {
      empty.wait(parity_of(round) ^ 1);
      if (lane == 0) full.arrive_for(kKeys * D * sizeof(T));
      __syncwarp();
      if (lane < boxes) copy_box(to + lane * box_rows * D, cache_map, full, 0, 0, 0, kv_head, at);
    };
    auto copy_keys = [&](int round, int at) {
      const int stage = round % kStages;
      copy(shared.keys[stage], shared.keys_full[stage], shared.keys_empty[stage], round, at);
    };
    auto copy_values = [&](int round, int at) {
      const int stage = round % kStages;
      copy(shared.values[stage], shared.values_full[stage], shared.values_empty[stage], round,
           at + values_at);
    };

    const int high = work.high(), low = work.low(window);
    int at = find(high);
    copy_keys(rounds, at);
    shared.queries_empty.wait((given & 1) ^ 1);
    if (lane == 0) {
      shared.work = work;
      shared.queries_full.arrive_for(kTile * D * sizeof(T));
      for (int i = 0; i < kConsumers; ++i) {
        copy_box(shared.queries[i], query_map, shared.queries_full, 0, work.token + i * kRows, 0,
                 work.head);
      }
    }
    ++given;
    for (int n = high; n > low; --n) {
      const int next = find(n - 1);
      copy_keys(rounds + 1, next);
      copy_values(rounds, at);
      at = next;
      ++rounds;
    }
    copy_values(rounds++, at);
  }
  shared.queries_empty.wait((given & 1) ^ 1);
  if (lane == 0) {
    shared.work.head = -1;
    shared.queries_full.arrive();
  }
}

// A warpgroup that multiplies.
template <typename T, int D, bool Capped>
__device__ __forceinline__ void consume(PrefillShared<T, D>& shared, const PagedPrefillArgs& args) {
  const int which = threadIdx.x / kWarpgroup - 1;
  const int lane = threadIdx.x % kWarp;
  const int row = which * kRows + threadIdx.x % kWarpgroup / kWarp * 16 + lane / 4;
  const int window = no_window(args.window);
  const ScoreScale scale(args.scale, args.soft_cap);
  constexpr int kQueryHalf = kRows * 128, kGroup = D / 64 * 1024;  // Bytes.
  const uint64_t queries = matrix_at(shared.queries[which], 1024, 16);
  int rounds = 0;

  // Turns: a warpgroup issues products when the other has issued its own.
  const int turn = 1 + which, other_turn = 2 - which;
  constexpr int kBoth = kConsumers * kWarpgroup;
  if (which == 1) arrive(other_turn, kBoth);

  float s[kKeys / 2], o[D / 2], fade[2];
  uint32_t weights[kKeys / 16][4];
  auto release = [&](Barrier& barrier) {
    if (lane == 0) barrier.arrive();
  };
  auto multiply_keys = [&](int stage) {
    const uint64_t keys = matrix_at(shared.keys[stage], kGroup, 16);
#pragma unroll
    for (int k = 0; k < D / 16; ++k) {
      product<T>(s, advance(queries, k / 4 * kQueryHalf + k % 4 * 32),
                 advance(keys, k / 4 * 1024 + k % 4 * 32), k > 0);
    }
    commit_products();
  };
  auto multiply_values = [&](int stage) {
    const uint64_t values = matrix_at(shared.values[stage], kGroup, 1024);
#pragma unroll
    for (int k = 0; k < kKeys / 16; ++k) {
      product<T>(o, weights[k], advance(values, k * 2 * kGroup));
    }
    commit_products();
  };
  auto round_weights = [&] {
#pragma unroll
    for (int i = 0; i < kKeys / 4; ++i) {
      weights[i / 4][i % 4] = pack<T>(s[2 * i], s[2 * i + 1]);
    }
  };

  for (int item = 0;; ++item) {
    shared.queries_full.wait(item & 1);
    const Work work = shared.work;
    if (work.head < 0) break;
    const int high = work.high(), low = work.low(window);
    const int first = work.before + which * kRows;  // Position of the warpgroup's first row.
    SoftmaxRows rows;
    auto weigh = [&](int n) {
      if constexpr (Capped) scale.cap(s);
      const int key = n * kKeys;
      if (key + kKeys - 1 > first || key <= first + kRows - 1 - window) {
        const int last = work.before + row - key - 2 * (lane % 4);
        hide(s, {last, last + 8}, window);
      }
      rows.add(s, scale.log2_scale, fade);
    };
    // What lies behind the request's last value may be no number, which no weight would hide.
    auto clear_values = [&](int n, int stage) {
      if (work.length >= (n + 1) * kKeys) return;
      constexpr int kParts = D / 8;  // Of 16 bytes.
      for (int i = threadIdx.x % kWarpgroup; i < kKeys * kParts; i += kWarpgroup) {
        const int key = i / kParts, part = i % kParts;
        if (n * kKeys + key < work.length) continue;
        char* at = reinterpret_cast<char*>(shared.values[stage]) + key / 8 * kGroup +
                   part / 8 * 1024 + key % 8 * 128 + part % 8 * 16;
        *reinterpret_cast<uint4*>(at) = make_uint4(0, 0, 0, 0);
      }
      publish_shared();
      sync(3 + which, kWarpgroup);
    };

    shared.keys_full[rounds % kStages].wait(parity_of(rounds));
    begin_products();
    multiply_keys(rounds % kStages);
    wait_products<0>();
    pin(s);
    release(shared.keys_empty[rounds % kStages]);
    weigh(high);
    round_weights();
#pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] = 0.0f;

    for (int n = high - 1; n >= low; --n, ++rounds) {
      const int stage = rounds % kStages, next = (rounds + 1) % kStages;
      shared.keys_full[next].wait(parity_of(rounds + 1));
      shared.values_full[stage].wait(parity_of(rounds));
      clear_values(n + 1, stage);
      sync(turn, kBoth);
      pin(o);
      begin_products();
      multiply_keys(next);
      multiply_values(stage);
      arrive(other_turn, kBoth);
      wait_products<1>();
      pin(s);
      release(shared.keys_empty[next]);
      weigh(n);
      wait_products<0>();
      pin(o);
      release(shared.values_empty[stage]);
      scale_rows(o, fade);
      round_weights();
    }
    release(shared.queries_empty);
    const int stage = rounds % kStages;
    shared.values_full[stage].wait(parity_of(rounds));
    clear_values(low, stage);
    pin(o);
    begin_products();
    multiply_values(stage);
    float shares[2], lse[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float whole = rows.whole(r);
      shares[r] = 1.0f / whole;
      lse[r] = rows.lse(r, whole, scale.log2_scale);
    }
    wait_products<0>();
    pin(o);
    release(shared.values_empty[stage]);
    ++rounds;

    scale_rows(o, shares);
    T* to[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = row + 8 * r;
      const int64_t token = work.token + i;
      to[r] = i < work.rows ? static_cast<T*>(args.out) + (token * args.heads + work.head) * D
                            : nullptr;
      if (args.lse != nullptr && i < work.rows && lane % 4 == 0) {
        args.lse[work.head * args.tokens + token] = lse[r];
      }
    }
    write_rows<T>(o, to, D);
  }
  if (which == 0) sync(turn, kBoth);  // The other's last.
}

template <typename T, int D, bool Capped>
__global__ void __launch_bounds__(kThreads, 1)
    paged_prefill_kernel(const __grid_constant__ CUtensorMap query_map,
                         const __grid_constant__ CUtensorMap cache_map,
                         const __grid_constant__ PagedPrefillArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char dynamic_shared[];
  auto& shared = *reinterpret_cast<PrefillShared<T, D>*>(
      (reinterpret_cast<uintptr_t>(dynamic_shared) + 1023) & ~uintptr_t{1023});
  if (threadIdx.x == 0) {
    prefetch(query_map);
    prefetch(cache_map);
    constexpr int kReaders = kConsumers * kWarpgroup / kWarp;  // Each warp arrives once.
    shared.queries_full.init(1);
    shared.queries_empty.init(kReaders);
    for (int i = 0; i < kStages; ++i) {
      shared.keys_full[i].init(1);
      shared.keys_empty[i].init(kReaders);
      shared.values_full[i].init(1);
      shared.values_empty[i].init(kReaders);
    }
    publish_barriers();
  }
  allow_next();
  wait_for_previous();
  __syncthreads();
  if (threadIdx.x < kWarpgroup) {
    give_registers_back<24>();
    if (threadIdx.x < kWarp) produce<T, D>(shared, query_map, cache_map, args);
  } else {
    take_registers<240>();
    consume<T, D, Capped>(shared, args);
  }
#else
  __trap();
#endif
}

template <typename T, int D, bool Capped>
Error launch_paged_prefill(const CUtensorMap& query_map, const CUtensorMap& cache_map,
                           const PagedPrefillArgs& args, Stream stream) {
  constexpr int kBytes = sizeof(PrefillShared<T, D>) + 1023;
  const auto kernel = paged_prefill_kernel<T, D, Capped>;
  const Error error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  const int64_t items = static_cast<int64_t>(args.tiles) * args.heads;
  const int blocks = static_cast<int>(min(items, static_cast<int64_t>(multiprocessors())));
  return launch(kernel, dim3(blocks), dim3(kThreads), kBytes, stream, query_map, cache_map, args);
}

template <typename T, int D>
Error launch_paged_prefill(const CUtensorMap& query_map, const CUtensorMap& cache_map,
                           const PagedPrefillArgs& args, Stream stream) {
  return args.soft_cap > 0.0f
             ? launch_paged_prefill<T, D, true>(query_map, cache_map, args, stream)
             : launch_paged_prefill<T, D, false>(query_map, cache_map, args, stream);
}

}  // namespace runtime_kernels_cuda::hopper
