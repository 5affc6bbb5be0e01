// Attention of single tokens to a paged cache. What it costs is reading the keys and values once.
//
// A request's keys are divided among blocks, so that few requests keep the whole device busy, and
// the last of these blocks to end merges what all have found ("flash decoding", Dao et al. 2023).
// A block's keys are divided among its warps, which merge in the same way. A warp multiplies its
// key head's queries, 16 at most, by 16 keys at a time on the tensor cores, with copies of further
// keys and values under way.
#pragma once

#include <climits>

#include "runtime_kernels_cuda/paged_decode_args.h"
#include "runtime_kernels_cuda/softmax_rows.cuh"

namespace runtime_kernels_cuda {

// Memory of a block, by the types and the width that head sizes are rounded up to.
template <typename T, typename Cache, int D>
struct DecodeShape {
  static constexpr bool kNarrow = sizeof(Cache) < sizeof(T);
  static constexpr int kWarps = D <= 128 ? 4 : 2;
  static constexpr int kThreads = kWarps * kWarp;
  static constexpr int kDepth = 3;                               // Rounds under way.
  static constexpr int kTile = kDecodeKeys * D * sizeof(Cache);  // Bytes of keys, or values.
  static constexpr int kWide = kNarrow ? kDecodeKeys * D * sizeof(T) : 0;  // The same, widened.
  static constexpr int kOfWarp = 2 * (kDepth * kTile + kWide);
  static constexpr int kBytes = kWarps * kOfWarp;
  static constexpr int kParts = D * sizeof(Cache) / 16;  // Copies of a key.
  static constexpr int kElements = 16 / sizeof(Cache);   // Of a copy.
};

// Bytes from a tile's start to 16 bytes of a row of D elements, placed so that eight rows' are in
// different banks.
template <int D>
__device__ __forceinline__ int decode_place(int row, int part) {
  return row * D * 2 + ((part ^ (row & 7)) * 16);
}

template <typename T>
__device__ __forceinline__ uint32_t widen(uint16_t both) {
  const __half2 wide(__nv_cvt_fp8x2_to_halfraw2(both, __NV_E4M3));
  if constexpr (std::is_same_v<T, BFloat16>) {
    const float2 wider = __half22float2(wide);
    return pack<T>(wider.x, wider.y);
  } else {
    return *reinterpret_cast<const uint32_t*>(&wide);
  }
}

// A warp's part of the keys: what its queries make of it.
template <typename T, typename Cache, int D>
struct DecodeWarp {
  using Shape = DecodeShape<T, Cache, D>;

  SoftmaxRows rows;
  float o[D / 2] = {};

  __device__ __forceinline__ void run(const PagedDecodeArgs& args, char* ring, int request,
                                      int kv_head, int first_head, int heads, DecodePart part,
                                      const ScoreScale& scale) {
    const int lane = threadIdx.x % kWarp, warp = threadIdx.x / kWarp;
    const T* query = static_cast<const T*>(args.query) + request * args.query_stride +
                     int64_t{first_head} * args.head_size;
    const Cache* cache = static_cast<const Cache*>(args.kv_cache);
    const int64_t half =
        args.blocks * args.block_size * args.kv_heads * static_cast<int64_t>(args.head_size);
    const int* table = args.block_table + request * args.table_stride;
    const int tiles = static_cast<int>(ceil_div(part.stop - part.start, kDecodeKeys));
    const int own = (tiles - warp + Shape::kWarps - 1) / Shape::kWarps;
    auto first_key = [&](int n) { return part.start + (n * Shape::kWarps + warp) * kDecodeKeys; };
    // Of this lane's key in round n: the first element; -1 behind the last.
    auto find = [&](int n) -> int64_t {
      const int key = first_key(n) + lane % kDecodeKeys;
      if (key >= part.stop) return -1;
      const int64_t slot =
          int64_t{table[key / args.block_size]} * args.block_size + key % args.block_size;
      return (slot * args.kv_heads + kv_head) * args.head_size;
    };
    auto fetch = [&](int n, int64_t row) {
      if (n < own) {
        char* tile = ring + n % Shape::kDepth * 2 * Shape::kTile;
#pragma unroll
        for (int i = 0; i < kDecodeKeys * Shape::kParts / kWarp; ++i) {
          const int index = i * kWarp + lane;
          const int key = index / Shape::kParts, at = index % Shape::kParts;
          const int64_t from = __shfl_sync(~0u, row, key);
          const bool there = from >= 0 && at * Shape::kElements < args.head_size;
          const Cache* source = cache + (there ? from + at * Shape::kElements : 0);
          char* to = tile + (Shape::kNarrow ? index * 16 : decode_place<D>(key, at));
          start_copy(to, source, there);
          start_copy(to + Shape::kTile, there ? source + half : source, there);
        }
      }
      end_group();
    };
    uint32_t q[D / 16][4];
#pragma unroll
    for (int i = 0; i < D / 4; ++i) {
      // Of the instruction's rows, columns and halves of columns.
      const int row = lane / 4 + i % 2 * 8;
      const int column = i / 4 * 16 + i / 2 % 2 * 8 + lane % 4 * 2;
      const bool there = row < heads && column < args.head_size;
      q[i / 4][i % 4] =
          there ? *reinterpret_cast<const uint32_t*>(query + row * args.head_size + column) : 0;
    }
#pragma unroll
    for (int n = 0; n < Shape::kDepth; ++n) fetch(n, find(n));
    int64_t next = find(Shape::kDepth);

    for (int n = 0; n < own; ++n) {
      wait_for_groups<Shape::kDepth - 1>();
      __syncwarp();
      const char* keys = ring + n % Shape::kDepth * 2 * Shape::kTile;
      const char* values = keys + Shape::kTile;
      if constexpr (Shape::kNarrow) {
        char* wide = ring + Shape::kDepth * 2 * Shape::kTile;
        widen_tiles(wide, keys);
        keys = wide;
        values = wide + Shape::kWide;
      }
      float s[kDecodeKeys / 2] = {};
#pragma unroll
      for (int k = 0; k < D / 16; ++k) {
        uint32_t b[4];
        const int row = lane / 16 * 8 + lane % 8;
        load_matrices(b, keys + decode_place<D>(row, 2 * k + lane / 8 % 2));
        multiply<T>(s, q[k][0], q[k][1], q[k][2], q[k][3], b[0], b[1]);
        multiply<T>(s + 4, q[k][0], q[k][1], q[k][2], q[k][3], b[2], b[3]);
      }
      if (args.soft_cap > 0.0f) scale.cap(s);
      const int there = part.stop - first_key(n);
      if (there < kDecodeKeys) {
        const int last = there - 1 - 2 * (lane % 4);
        hide(s, {last, last}, INT_MAX / 2);
      }
      float fade[2];
      rows.add(s, scale.log2_scale, fade);
      scale_rows(o, fade);
      uint32_t weights[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[i] = pack<T>(s[2 * i], s[2 * i + 1]);
#pragma unroll
      for (int d = 0; d < D / 16; ++d) {
        uint32_t b[4];
        load_columns(b, values + decode_place<D>(lane % 16, 2 * d + lane / 16));
        multiply<T>(o + 8 * d, weights[0], weights[1], weights[2], weights[3], b[0], b[1]);
        multiply<T>(o + 8 * d + 4, weights[0], weights[1], weights[2], weights[3], b[2], b[3]);
      }
      // All lanes have read the place, which the next copies go to.
      __syncwarp();
      fetch(n + Shape::kDepth, next);
      next = find(n + Shape::kDepth + 1);
    }
    wait_for_groups<0>();
  }

  // Keys and values of a round from float8.
  static __device__ __forceinline__ void widen_tiles(char* to, const char* from) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int i = 0; i < 2 * kDecodeKeys * Shape::kParts / kWarp; ++i) {
      const int index = i * kWarp + lane, of_tile = index % (kDecodeKeys * Shape::kParts);
      const int row = of_tile / Shape::kParts, part = of_tile % Shape::kParts;
      const auto narrow =
          load<Vec<uint16_t, 8>>(reinterpret_cast<const uint16_t*>(from) + index * 8);
      char* tile = to + (index == of_tile ? 0 : Shape::kWide);
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        Vec<uint32_t, 4> wide;
#pragma unroll
        for (int e = 0; e < 4; ++e) wide[e] = widen<T>(narrow[4 * j + e]);
        store(reinterpret_cast<uint32_t*>(tile + decode_place<D>(row, 2 * part + j)), wide);
      }
    }
    __syncwarp();
  }

  // Leave sums and totals to the block: [rows, D], and of each row the largest score as an
  // exponent of 2 and the total over it.
  __device__ __forceinline__ void leave(float* sums, float2* totals, float log2_scale) const {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = lane / 4 + 8 * r;
      const float whole = rows.whole(r);
      if (lane % 4 == 0) totals[row] = make_float2(rows.most[r] * log2_scale, whole);
#pragma unroll
      for (int i = 0; i < D / 8; ++i) {
        float* to = sums + row * D + i * 8 + lane % 4 * 2;
        to[0] = o[4 * i + 2 * r];
        to[1] = o[4 * i + 2 * r + 1];
      }
    }
  }
};

// What a part weighs whose scores are over 2 ** most, among parts of which the largest is that of
// all. A part that has seen nothing has minus infinity, and weighs nothing.
__device__ __forceinline__ float decode_weight(float most, float largest) {
  return most == -INFINITY ? 0.0f : fast_exp2(most - largest);
}

// The last block of a request and key head: merge what all parts have left in the workspace.
template <typename T>
__device__ __forceinline__ void merge_parts(const PagedDecodeArgs& args, const float* left,
                                            float* weights, T* out, int rows, int parts,
                                            float value_scale) {
  const int lane = threadIdx.x % kWarp, size = args.head_size;
  const int64_t of_part = decode_part(args), totals_at = decode_totals_at(args);
  for (int row = threadIdx.x / kWarp; row < rows; row += blockDim.x / kWarp) {
    constexpr int kOfLane = kDecodeSplits / kWarp;
    float2 of_lane[kOfLane];
    float largest = -INFINITY, total = 0.0f;
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int part = i * kWarp + lane;
      of_lane[i] = make_float2(-INFINITY, 0.0f);
      if (part < parts) {
        of_lane[i] =
            __ldcg(reinterpret_cast<const float2*>(left + part * of_part + totals_at) + row);
      }
      largest = fmaxf(largest, of_lane[i].x);
    }
#pragma unroll
    for (int o = kWarp / 2; o > 0; o /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, o));
    }
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      total += decode_weight(of_lane[i].x, largest) * of_lane[i].y;
    }
#pragma unroll
    for (int o = kWarp / 2; o > 0; o /= 2) total += __shfl_xor_sync(~0u, total, o);
#pragma unroll
    for (int i = 0; i < kOfLane; ++i) {
      const int part = i * kWarp + lane;
      const float weight = decode_weight(of_lane[i].x, largest) * value_scale / total;
      if (part < parts) weights[row * kDecodeSplits + part] = weight;
    }
  }
  __syncthreads();
  for (int at = threadIdx.x * 4; at < rows * size; at += blockDim.x * 4) {
    const float* of_row = weights + at / size * kDecodeSplits;
    float4 sum = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
#pragma unroll 4
    for (int part = 0; part < parts; ++part) {
      const float4 x = __ldcg(reinterpret_cast<const float4*>(left + part * of_part + at));
      const float weight = of_row[part];
      sum.x = fmaf(weight, x.x, sum.x);
      sum.y = fmaf(weight, x.y, sum.y);
      sum.z = fmaf(weight, x.z, sum.z);
      sum.w = fmaf(weight, x.w, sum.w);
    }
    Vec<uint32_t, 2> result;
    result[0] = pack<T>(sum.x, sum.y);
    result[1] = pack<T>(sum.z, sum.w);
    store(reinterpret_cast<uint32_t*>(out + at), result);
  }
}

// blockIdx is the request, 16 heads of a key head at most, and the part of the keys.
template <typename T, typename Cache, int D>
__global__ void __launch_bounds__(DecodeShape<T, Cache, D>::kThreads)
    paged_decode_kernel(const __grid_constant__ PagedDecodeArgs args) {
  using Shape = DecodeShape<T, Cache, D>;
  static_assert(Shape::kWarps * kDecodeRows * (D + 2) * 4 <= Shape::kBytes);
  static_assert(kDecodeRows * kDecodeSplits * 4 <= Shape::kBytes);
  __shared__ bool is_last;
  char* shared = dynamic_shared();
  allow_next();
  wait_for_previous();
  const int request = blockIdx.x, tiles = gridDim.y / args.kv_heads;
  const int kv_head = blockIdx.y / tiles, group = args.heads / args.kv_heads;
  const int first_row = blockIdx.y % tiles * kDecodeRows;
  const int first_head = kv_head * group + first_row, heads = min(group - first_row, kDecodeRows);
  const DecodePart part =
      decode_part_of(args.seq_lens[request], args.window, args.splits, args.least_keys, blockIdx.z);
  if (static_cast<int>(blockIdx.z) >= part.parts) return;
  float key_scale = 1.0f, value_scale = 1.0f;
  if constexpr (Shape::kNarrow) {
    if (args.key_scale != nullptr) key_scale = *args.key_scale;
    if (args.value_scale != nullptr) value_scale = *args.value_scale;
  }
  const ScoreScale scale(args.scale * key_scale, args.soft_cap);
  const int warp = threadIdx.x / kWarp, size = args.head_size;
  float* sums = reinterpret_cast<float*>(shared);  // [kWarps, kDecodeRows, D]
  float2* totals = reinterpret_cast<float2*>(sums + Shape::kWarps * kDecodeRows * D);
  {
    DecodeWarp<T, Cache, D> own;
    own.run(args, shared + warp * Shape::kOfWarp, request, kv_head, first_head, heads, part, scale);
    __syncthreads();
    own.leave(sums + warp * kDecodeRows * D, totals + warp * kDecodeRows, scale.log2_scale);
  }
  __syncthreads();

  T* out = static_cast<T*>(args.out) + (int64_t{request} * args.heads + first_head) * size;
  const int64_t place = int64_t{request} * gridDim.y + blockIdx.y, of_part = decode_part(args);
  float* left =
      part.parts == 1 ? nullptr : args.workspace + (place * args.splits + blockIdx.z) * of_part;
  for (int at = threadIdx.x; at < heads * size; at += Shape::kThreads) {
    const int row = at / size, column = at % size;
    float largest = -INFINITY, total = 0.0f, sum = 0.0f;
#pragma unroll
    for (int w = 0; w < Shape::kWarps; ++w) {
      largest = fmaxf(largest, totals[w * kDecodeRows + row].x);
    }
#pragma unroll
    for (int w = 0; w < Shape::kWarps; ++w) {
      const float2 of_warp = totals[w * kDecodeRows + row];
      const float weight = decode_weight(of_warp.x, largest);
      total += weight * of_warp.y;
      sum += weight * sums[(w * kDecodeRows + row) * D + column];
    }
    if (left == nullptr) {
      out[at] = from_float<T>(total > 0.0f ? sum * value_scale / total : 0.0f);
      continue;
    }
    left[at] = sum;
    if (column == 0) {
      reinterpret_cast<float2*>(left + decode_totals_at(args))[row] = make_float2(largest, total);
    }
  }
  if (left == nullptr) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) is_last = atomicAdd(args.counters + place, 1) == part.parts - 1;
  __syncthreads();
  if (!is_last) return;
  __threadfence();
  merge_parts<T>(args, args.workspace + place * args.splits * of_part, sums, out, heads, part.parts,
                 value_scale);
  if (threadIdx.x == 0) args.counters[place] = 0;
}

template <typename T, typename Cache, int D>
Error launch_paged_decode(const PagedDecodeArgs& args, Stream stream) {
  using Shape = DecodeShape<T, Cache, D>;
  const auto kernel = paged_decode_kernel<T, Cache, D>;
  const Error error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kBytes);
  if (error != cudaSuccess) return error;
  const int rows = args.kv_heads * decode_tiles(args.heads, args.kv_heads);
  return launch(kernel, dim3(args.requests, rows, args.splits), dim3(Shape::kThreads),
                Shape::kBytes, stream, args);
}

template <typename T, typename Cache>
Error launch_paged_decode(const PagedDecodeArgs& args, Stream stream) {
  if (args.head_size <= 64) return launch_paged_decode<T, Cache, 64>(args, stream);
  return args.head_size <= 128 ? launch_paged_decode<T, Cache, 128>(args, stream)
                               : launch_paged_decode<T, Cache, 256>(args, stream);
}

template <typename T>
Error launch_paged_decode(const PagedDecodeArgs& args, Stream stream) {
  return args.cache_dtype == DType::kFloat8E4M3 ? launch_paged_decode<T, Float8E4M3>(args, stream)
                                                : launch_paged_decode<T, T>(args, stream);
}

}  // namespace runtime_kernels_cuda
