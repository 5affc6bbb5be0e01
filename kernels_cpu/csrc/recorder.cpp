#include "recorder.h"

#include <torch/headeronly/util/Exception.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

namespace runtime_kernels {
namespace {

using Recording = std::vector<std::function<void()>>;

thread_local std::unique_ptr<Recording> open_recording;

struct Kept {
  std::mutex mutex;
  std::map<int64_t, std::shared_ptr<const Recording>> recordings;
  int64_t next = 0;
};

// Never destroyed: a graph may be dropped while the program ends.
Kept& kept() {
  static Kept* all = new Kept;
  return *all;
}

}  // namespace

bool recording() { return open_recording != nullptr; }

void record(std::function<void()> work) { open_recording->push_back(std::move(work)); }

void begin_recording() {
  STD_TORCH_CHECK(!recording(), "this thread records kernel calls already");
  open_recording = std::make_unique<Recording>();
}

int64_t end_recording() {
  if (!recording()) return -1;
  std::shared_ptr<const Recording> done = std::move(open_recording);
  Kept& all = kept();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.recordings[all.next] = std::move(done);
  return all.next++;
}

void replay(int64_t handle) {
  std::shared_ptr<const Recording> found;
  {
    Kept& all = kept();
    const std::lock_guard<std::mutex> lock(all.mutex);
    const auto place = all.recordings.find(handle);
    STD_TORCH_CHECK(place != all.recordings.end(), "there is no recording ", handle);
    found = place->second;
  }
  for (const auto& work : *found) work();
}

void drop_recording(int64_t handle) {
  Kept& all = kept();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.recordings.erase(handle);
}

}  // namespace runtime_kernels
