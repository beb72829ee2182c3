#include "variable/variable.hpp"

#include <atomic>
#include <cstddef>
#include <memory>

namespace {

// Who adds makes a new value and tries to put it in place of the one it was made from.
template <class T>
class std_atomic_shared_ptr {
 public:
  static constexpr std::string_view name = "std_atomic_shared_ptr";

  std::shared_ptr<const T> read() const { return value_.load(); }
  void add() {
    std::shared_ptr<const T> seen = value_.load();
    std::shared_ptr<const T> next;
    do {
      auto made = std::make_shared<T>(*seen);
      *made += 1;
      next = std::move(made);
    } while (!value_.compare_exchange_weak(seen, std::move(next)));
  }
  static long number_in(const std::shared_ptr<const T>& value, std::size_t place) {
    return bench::variable::number(*value, place);
  }

 private:
  std::atomic<std::shared_ptr<const T>> value_{std::make_shared<const T>()};
};

const bool asked = bench::variable::ask<std_atomic_shared_ptr>();

}  // namespace
