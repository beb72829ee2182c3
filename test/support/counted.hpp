// counted.hpp - a value that knows how many of its kind are alive.
#pragma once

#include <atomic>

namespace support {

class counted {
 public:
  explicit counted(int v = 0) : value(v) { ++alive_; }
  counted(const counted& other) : value(other.value) { ++alive_; }
  counted(counted&& other) noexcept : value(other.value) {
    other.value = -1;
    ++alive_;
  }
  counted& operator=(const counted&) = default;
  ~counted() { --alive_; }

  // Less than 0 if one was destroyed twice.
  static int alive() { return alive_; }

  int value;

 private:
  static inline std::atomic<int> alive_{0};
};

}  // namespace support
