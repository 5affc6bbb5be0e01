// Memory that a thread keeps from call to call.
#pragma once

#include <cstdint>
#include <memory>

namespace runtime_kernels {

class Scratch {
 public:
  // At least so many bytes, on cache lines; what an earlier call got may be gone.
  void* reserve(int64_t bytes) {
    if (bytes > size_) {
      memory_.reset(new unsigned char[static_cast<size_t>(bytes) + kLine]);
      size_ = bytes;
    }
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    return reinterpret_cast<void*>((address + kLine - 1) / kLine * kLine);
  }

 private:
  static constexpr uintptr_t kLine = 64;
  std::unique_ptr<unsigned char[]> memory_;
  int64_t size_ = 0;
};

}  // namespace runtime_kernels
