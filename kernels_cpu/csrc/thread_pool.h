// The threads that kernels share: one pool a process, made when it is first needed.
#pragma once

#include <cstdint>

namespace runtime_kernels {

// How many threads compute, the calling one among them. Those there are too many of end.
void set_threads(int threads);
int threads();

namespace detail {
using Task = void (*)(void* context, int64_t index);
void run(int64_t tasks, Task task, void* context);
}  // namespace detail

// Call f(index) for index in [0, tasks), on all threads; returns when all are done. Where another
// thread of the program is using the pool, the calling one does all: nobody waits for another's
// work. f must not throw.
template <class F>
void parallel(int64_t tasks, F& f) {
  if (tasks == 1) {
    f(int64_t{0});
    return;
  }
  detail::run(tasks, [](void* context, int64_t index) { (*static_cast<F*>(context))(index); }, &f);
}

// Rows of `width` elements that are worth a thread's attention, where each is passed over once.
inline int64_t rows_a_range(int64_t width) {
  constexpr int64_t kElements = 16384;
  return width >= kElements ? 1 : kElements / (width + 1) + 1;
}

// Split [0, items) into ranges of at least `grain`, a few a thread, and call f(begin, end).
template <class F>
void parallel_ranges(int64_t items, int64_t grain, F f) {
  constexpr int64_t kRangesPerThread = 4;
  const int64_t most = threads() * kRangesPerThread;
  int64_t size = (items + most - 1) / most;
  size = size < grain ? grain : size;
  const int64_t tasks = (items + size - 1) / size;
  auto range = [&](int64_t index) {
    const int64_t begin = index * size, end = begin + size;
    f(begin, end < items ? end : items);
  };
  if (tasks > 0) parallel(tasks, range);
}

}  // namespace runtime_kernels
