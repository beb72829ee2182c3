// behind.hpp - a value behind a mutex: who reads copies it out.
#pragma once

#include "variable/variable.hpp"

#include <cstddef>
#include <mutex>

namespace bench::variable {

// Reading holds the mutex by a ReadLock.
template <class T, class Mutex, template <class> class ReadLock>
class behind {
 public:
  T read() const {
    const ReadLock<Mutex> hold(mutex_);
    return value_;
  }
  void add() {
    const std::lock_guard hold(mutex_);
    value_ += 1;
  }
  static long number_in(const T& value, std::size_t place) { return number(value, place); }

 private:
  mutable Mutex mutex_;
  T value_{};
};

}  // namespace bench::variable
