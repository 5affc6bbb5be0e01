// Recordings of kernel calls, which replay without the caller between them.
//
// A launcher checks shapes and pointers, then submits the rest: a function of raw pointers that
// reads positions, lengths and block ids when it runs. While a thread records, what it submits is
// kept as well; a replay calls it all again on the same memory.
#pragma once

#include <cstdint>
#include <functional>

namespace runtime_kernels {

bool recording();
void record(std::function<void()> work);

template <class F>
void submit(F work) {
  work();  // First: what throws is not kept.
  if (recording()) record(std::move(work));
}

// Start to record this thread's submissions. Throws where it records already.
void begin_recording();
// End, and return the recording's handle; -1 where there was none.
int64_t end_recording();
// Run a recording; throws for an unknown handle, and whatever the work throws.
void replay(int64_t handle);
void drop_recording(int64_t handle);

}  // namespace runtime_kernels
