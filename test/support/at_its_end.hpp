// at_its_end.hpp - what a thread does last, in a destructor of an object of its own.
#pragma once

#include <functional>

namespace support {

struct at_its_end {
  std::function<void()> call;
  ~at_its_end() {
    if (call) call();
  }
};

}  // namespace support
