// elsewhere.hpp - on another thread than the test's own.
#pragma once

#include <thread>
#include <utility>

namespace support {

// Runs `f` on a thread of its own, to its end.
template <class F>
void elsewhere(F f) {
  std::thread(std::move(f)).join();
}

}  // namespace support
