// Stands in for the kernels' own device.h: a block's threads are taken in turns on the host, so
// that kernels can be checked where there is no GPU. Blocks run one after the other; a thread goes
// on until it waits for its warp or its block. It finds wrong arithmetic, indices and missing
// synchronisation of a thread with others of its own making, not races between blocks.
#pragma once

#include <cuda_runtime_api.h>
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <vector>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

using std::max;
using std::min;

namespace emulated {

constexpr int kLanes = 32;

// Those who wait for each other. Threads that have ended count as there.
struct Meeting {
  int expected = 0, arrived = 0;
  unsigned round = 0;

  void close_if_full() {
    if (arrived == expected) {
      arrived = 0;
      ++round;
    }
  }
};

struct Thread {
  ucontext_t start;
  jmp_buf place;  // Where it goes on: jumps are quicker than changes of contexts.
  std::unique_ptr<char[]> stack;
  uint3 index;
  int lane, warp;
  bool started = false, ended = false;
};

struct Warp {
  Meeting meeting;
  char shown[kLanes][32];  // What lanes show each other.
};

// The block that runs, of the launch that runs.
struct Block {
  uint3 index{};
  dim3 grid, block;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  Meeting meeting;
  std::vector<uint4> shared;
  std::function<void()> work;
  jmp_buf scheduler;
  Thread* now = nullptr;

  void yield() {
    if (_setjmp(now->place) == 0) _longjmp(scheduler, 1);
  }
  void resume(Thread& thread) {
    now = &thread;
    if (_setjmp(scheduler) != 0) return;
    if (thread.started) _longjmp(thread.place, 1);
    thread.started = true;
    setcontext(&thread.start);
  }
  void meet(Meeting& meeting) {
    const unsigned round = meeting.round;
    ++meeting.arrived;
    meeting.close_if_full();
    while (meeting.round == round) yield();
  }
  Warp& warp() { return warps[now->warp]; }
  void run();
};

inline Block& current() {
  static Block block;
  return block;
}

inline void begin_thread() {
  Block& block = current();
  block.work();
  Thread& self = *block.now;
  self.ended = true;
  for (Meeting* meeting : {&block.meeting, &block.warp().meeting}) {
    --meeting->expected;
    if (meeting->arrived > 0) meeting->close_if_full();
  }
  _longjmp(block.scheduler, 1);
}

inline void Block::run() {
  constexpr size_t kStack = 96 << 10;
  const int count = static_cast<int>(block.x);
  threads.resize(count);
  warps.assign((count + kLanes - 1) / kLanes, Warp{});
  meeting = Meeting{count, 0, 0};
  for (int i = 0; i < count; ++i) {
    Thread& thread = threads[i];
    if (!thread.stack) thread.stack.reset(new char[kStack]);
    thread.index = uint3{static_cast<unsigned>(i), 0, 0};
    thread.lane = i % kLanes;
    thread.warp = i / kLanes;
    thread.started = thread.ended = false;
    ++warps[thread.warp].meeting.expected;
    getcontext(&thread.start);
    thread.start.uc_stack.ss_sp = thread.stack.get();
    thread.start.uc_stack.ss_size = kStack;
    thread.start.uc_link = nullptr;
    makecontext(&thread.start, begin_thread, 0);
  }
  for (int left = count; left > 0;) {
    left = 0;
    for (Thread& thread : threads) {
      if (thread.ended) continue;
      resume(thread);
      left += !thread.ended;
    }
  }
}

// What all lanes of the warp have.
template <typename T>
struct All {
  T of[kLanes];
};
template <typename T>
All<T> show(const T& value) {
  static_assert(sizeof(T) <= sizeof(Warp::shown[0]));
  Warp& warp = current().warp();
  std::memcpy(warp.shown[current().now->lane], &value, sizeof(T));
  current().meet(warp.meeting);
  All<T> all;
  for (int i = 0; i < kLanes; ++i) std::memcpy(&all.of[i], warp.shown[i], sizeof(T));
  current().meet(warp.meeting);
  return all;
}

}  // namespace emulated

#define threadIdx (emulated::current().now->index)
#define blockIdx (emulated::current().index)
#define blockDim (emulated::current().block)
#define gridDim (emulated::current().grid)

inline void __syncthreads() { emulated::current().meet(emulated::current().meeting); }
inline void __syncwarp() { emulated::current().meet(emulated::current().warp().meeting); }
inline void __threadfence() {}
[[noreturn]] inline void __trap() {
  std::fprintf(stderr, "a kernel trapped\n");
  std::abort();
}
template <typename T>
T __shfl_sync(unsigned, T value, int lane) {
  return emulated::show(value).of[lane & 31];
}
template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return emulated::show(value).of[emulated::current().now->lane ^ mask];
}
template <typename T>
T __shfl_up_sync(unsigned, T value, int by) {
  const int lane = emulated::current().now->lane;
  return emulated::show(value).of[lane >= by ? lane - by : lane];
}
inline unsigned __ballot_sync(unsigned, bool value) {
  unsigned result = 0;
  const auto all = emulated::show(value);
  for (int i = 0; i < emulated::kLanes; ++i) result |= unsigned{all.of[i]} << i;
  return result;
}
template <typename T, typename U>
T atomicAdd(T* to, U value) {
  const T before = *to;
  *to = static_cast<T>(before + value);
  return before;
}
template <typename T, typename U>
T atomicOr(T* to, U value) {
  const T before = *to;
  *to = static_cast<T>(before | value);
  return before;
}
template <typename T>
T __ldcg(const T* from) {
  return *from;
}
inline int __ffs(unsigned x) { return __builtin_ffs(static_cast<int>(x)); }
inline int __clz(unsigned x) { return x == 0 ? 32 : __builtin_clz(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __float_as_uint(float x) {
  unsigned bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float x) { return std::exp(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

namespace runtime_kernels_cuda {

using Stream = cudaStream_t;
using Error = cudaError_t;

constexpr int kWarp = emulated::kLanes;

inline int multiprocessors() { return 3; }
inline void wait_for_previous() {}
inline void allow_next() {}

#define cudaFuncSetAttribute(...) (cudaSuccess)

template <typename... Parameters, typename... Arguments>
Error launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, Stream,
             Arguments... arguments) {
  emulated::Block& now = emulated::current();
  now.grid = grid;
  now.block = block;
  // What no block has written is no number.
  now.shared.assign(shared_bytes / sizeof(uint4) + 1, uint4{~0u, ~0u, ~0u, ~0u});
  const std::tuple<Parameters...> all(static_cast<Parameters>(arguments)...);
  now.work = [&] { std::apply(kernel, all); };
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        now.index = uint3{x, y, z};
        now.run();
      }
    }
  }
  return cudaSuccess;
}

}  // namespace runtime_kernels_cuda
