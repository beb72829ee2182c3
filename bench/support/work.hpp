// work.hpp - work that no compiler can shorten and whose result can be foretold.
//
// One step is a multiply-add that needs the step before it, so the time grows with the steps and
// nothing overlaps. Many steps are one multiply-add again, so the right answer of a whole round is
// found in a moment, and an update that was lost anywhere shows.
#pragma once

#include <cstdint>

namespace bench {

inline constexpr std::uint64_t multiplier = 6364136223846793005u;  // Knuth's, MMIX
inline constexpr std::uint64_t increment = 1442695040888963407u;

// Takes `steps` steps from `value`. The empty assembly keeps clang from taking eight in one.
inline std::uint64_t multiply_add(std::uint64_t value, std::uint64_t steps) noexcept {
  for (std::uint64_t i = 0; i < steps; ++i) {
    value = value * multiplier + increment;
    asm volatile("" : "+r"(value));
  }
  return value;
}

// What multiply_add gives, in a time that grows with the logarithm of `steps`.
constexpr std::uint64_t multiply_add_foretold(std::uint64_t value, std::uint64_t steps) noexcept {
  std::uint64_t factor = multiplier;
  std::uint64_t summand = increment;
  for (; steps != 0; steps /= 2) {
    if (steps % 2 != 0) value = value * factor + summand;
    summand += summand * factor;
    factor *= factor;
  }
  return value;
}

static_assert(multiply_add_foretold(7, 0) == 7);
static_assert(multiply_add_foretold(7, 1) == 7 * multiplier + increment);
static_assert(multiply_add_foretold(7, 5) == multiply_add_foretold(multiply_add_foretold(7, 2), 3));

// How long a step takes: timed once a process, unless the command line gave it. Processes whose
// numbers are compared are given the same, so that they do the same work.
double& given_step_nanoseconds();
double step_nanoseconds();

// How many steps last about `nanoseconds`.
std::uint64_t steps_lasting(double nanoseconds);

}  // namespace bench
