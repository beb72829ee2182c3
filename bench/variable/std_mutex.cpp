#include "variable/variable.hpp"

#include <cstddef>
#include <mutex>

namespace {

// Who reads copies the value out.
template <class T>
class std_mutex {
 public:
  static constexpr std::string_view name = "std_mutex";

  T read() const {
    const std::lock_guard hold(mutex_);
    return value_;
  }
  void add() {
    const std::lock_guard hold(mutex_);
    value_ += 1;
  }
  static long number_in(const T& value, std::size_t place) {
    return bench::variable::number(value, place);
  }

 private:
  mutable std::mutex mutex_;
  T value_{};
};

const bool asked = bench::variable::ask<std_mutex>();

}  // namespace
