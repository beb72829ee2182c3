#include "variable/variable.hpp"

#include <atomic>
#include <cstddef>

namespace {

// Holds one word, and says no version of it.
class std_atomic {
 public:
  static constexpr std::string_view name = "std_atomic";

  long read() const { return value_.load(); }
  void add() { value_.fetch_add(1); }
  static long number_in(long value, std::size_t) { return value; }

 private:
  std::atomic<long> value_{0};
};

const bool asked = bench::variable::ask_long<std_atomic>();

}  // namespace
