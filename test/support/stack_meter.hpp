// stack_meter.hpp - how much stack a stretch of code used on this thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace support {

class stack_meter {
 public:
  // Call it wherever the stack might be deep.
  [[gnu::noinline]] void look() {
    const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    lowest_ = std::min(lowest_, here);
    highest_ = std::max(highest_, here);
  }

  std::size_t used() const { return highest_ - lowest_; }

 private:
  std::uintptr_t lowest_ = UINTPTR_MAX;
  std::uintptr_t highest_ = 0;
};

}  // namespace support
