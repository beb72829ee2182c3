// tally.hpp - what the bodies of a case change, and the answer it must have at the end.
#pragma once

#include "support/work.hpp"

#include <cstddef>
#include <cstdint>

namespace bench {

// Plain numbers on a cache line of their own: only the section under test protects them.
class alignas(64) tally {
 public:
  void add() noexcept { ++count_; }

  // Gives back what it made, so that somebody can go on with it.
  std::uint64_t add(std::uint64_t steps) noexcept {
    ++count_;
    return value_ = multiply_add(value_, steps);
  }

  bool is(std::size_t operations, std::uint64_t steps = 0) const noexcept {
    return count_ == operations && value_ == multiply_add_foretold(first_value, operations * steps);
  }

 private:
  static constexpr std::uint64_t first_value = 1;

  std::uint64_t count_ = 0;
  std::uint64_t value_ = first_value;
};

}  // namespace bench
