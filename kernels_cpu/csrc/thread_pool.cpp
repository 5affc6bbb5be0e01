#include "thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace runtime_kernels {
namespace {

inline void pause_briefly() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// How long an idle worker looks for work before it sleeps: longer than the gap between two ops of
// a step, shorter than what anybody would notice on an idle machine.
constexpr auto kSpin = std::chrono::microseconds(100);

// A job is published in `state_`: its number, whether workers may still join, and how many have.
// The caller closes it when no task is left and waits only for those who joined, so a worker that
// sleeps is never waited for, and one that wakes late finds the job closed.
class Pool {
 public:
  explicit Pool(int count) { resize(count); }

  int count() const { return count_.load(std::memory_order_relaxed); }

  void resize(int count) {
    std::lock_guard<std::mutex> owner(run_mutex_);
    const int workers = count - 1, before = static_cast<int>(workers_.size());
    count_.store(count, std::memory_order_relaxed);
    if (workers < before) {
      {
        std::lock_guard<std::mutex> lock(sleep_mutex_);
        keep_.store(workers, std::memory_order_release);
      }
      wake_.notify_all();
      for (int i = workers; i < before; ++i) workers_[i].join();
      workers_.resize(workers);
      return;
    }
    keep_.store(workers, std::memory_order_release);
    for (int i = before; i < workers; ++i) workers_.emplace_back([this, i] { work(i); });
  }

  void run(int64_t tasks, detail::Task task, void* context) {
    std::unique_lock<std::mutex> owner(run_mutex_, std::try_to_lock);
    if (!owner.owns_lock() || workers_.empty()) {
      for (int64_t i = 0; i < tasks; ++i) task(context, i);
      return;
    }
    task_ = task;
    context_ = context;
    tasks_ = tasks;
    next_.store(0, std::memory_order_relaxed);
    open();
    take_tasks();
    close();
  }

 private:
  static constexpr uint64_t kOpen = uint64_t{1} << 31;
  static constexpr uint64_t kJoined = kOpen - 1;
  static constexpr uint64_t kNumber = uint64_t{1} << 32;

  void open() {
    const uint64_t number = state_.load(std::memory_order_relaxed) & ~(kNumber - 1);
    // Sequentially consistent with `sleepers_`: either the worker sees the job or we see it sleep.
    state_.store((number + kNumber) | kOpen, std::memory_order_seq_cst);
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      {
        std::lock_guard<std::mutex> lock(sleep_mutex_);
      }
      wake_.notify_all();
    }
  }

  void close() {
    uint64_t state = state_.fetch_and(~kOpen, std::memory_order_acq_rel);
    for (int spins = 0; (state & kJoined) != 0; ++spins) {
      // A worker may have lost its core in the midst of a task.
      if (spins < 2000) {
        pause_briefly();
      } else {
        sched_yield();
      }
      state = state_.load(std::memory_order_acquire);
    }
  }

  void take_tasks() {
    for (;;) {
      const int64_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= tasks_) return;
      task_(context_, index);
    }
  }

  void work(int index) {
    uint64_t done = 0;  // Number of the last job that this worker has joined.
    while (wait_for_job(index, done)) {
      uint64_t state = state_.load(std::memory_order_acquire);
      while ((state & kOpen) != 0 && (state & ~(kNumber - 1)) != done) {
        if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
        done = state & ~(kNumber - 1);
        take_tasks();
        state_.fetch_sub(1, std::memory_order_acq_rel);
        break;
      }
    }
  }

  bool has_job(uint64_t done) const {
    const uint64_t state = state_.load(std::memory_order_seq_cst);
    return (state & kOpen) != 0 && (state & ~(kNumber - 1)) != done;
  }

  // False where the worker is no longer wanted.
  bool wait_for_job(int index, uint64_t done) {
    const auto wanted = [&] { return index < keep_.load(std::memory_order_acquire); };
    const auto until = std::chrono::steady_clock::now() + kSpin;
    do {
      for (int i = 0; i < 32; ++i) {
        if (has_job(done)) return true;
        pause_briefly();
      }
      if (!wanted()) return false;
    } while (std::chrono::steady_clock::now() < until);
    std::unique_lock<std::mutex> lock(sleep_mutex_);
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    wake_.wait(lock, [&] { return has_job(done) || !wanted(); });
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    return wanted();
  }

  std::mutex run_mutex_;  // Held by whoever runs a job or changes the workers.
  std::vector<std::thread> workers_;
  std::atomic<int> count_{1};
  std::atomic<int> keep_{0};

  std::mutex sleep_mutex_;
  std::condition_variable wake_;
  std::atomic<int> sleepers_{0};

  detail::Task task_ = nullptr;
  void* context_ = nullptr;
  int64_t tasks_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<uint64_t> state_{0};
};

// Never destroyed: workers may outlive the static objects of the program.
std::atomic<Pool*> the_pool{nullptr};
std::atomic<int> wanted_threads{1};

Pool& pool() {
  Pool* present = the_pool.load(std::memory_order_acquire);
  if (present != nullptr) return *present;
  static std::once_flag registered;
  std::call_once(registered, [] {
    // The child of a fork has none of the workers: it makes its own, and leaves the parent's pool
    // as it is, whose mutexes may be held by threads that the child does not have.
    pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr); });
  });
  auto made = std::make_unique<Pool>(wanted_threads.load());
  if (the_pool.compare_exchange_strong(present, made.get())) return *made.release();
  made->resize(1);
  return *present;
}

}  // namespace

void set_threads(int threads) {
  wanted_threads.store(threads);
  pool().resize(threads);
}

int threads() { return pool().count(); }

namespace detail {
void run(int64_t tasks, Task task, void* context) { pool().run(tasks, task, context); }
}  // namespace detail

}  // namespace runtime_kernels
