#include "variable/variable.hpp"

#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace {

// Who reads copies the value out, beside others who do.
template <class T>
class std_shared_mutex {
 public:
  static constexpr std::string_view name = "std_shared_mutex";

  T read() const {
    const std::shared_lock hold(mutex_);
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
  mutable std::shared_mutex mutex_;
  T value_{};
};

const bool asked = bench::variable::ask<std_shared_mutex>();

}  // namespace
