// stopwatch.hpp - how long something takes, and how long at best.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <utility>

namespace bench {

using clock = std::chrono::steady_clock;
using nanoseconds = std::chrono::duration<double, std::nano>;

template <class Work>
nanoseconds time_of(Work&& work) {
  const auto start = clock::now();
  std::forward<Work>(work)();
  return clock::now() - start;
}

// The time of one call in the fastest of a few bursts: what the work costs when nothing disturbs
// it. `burst(n)` makes n calls and gives back how long they took.
template <class Burst>
nanoseconds fastest_call(Burst&& burst) {
  constexpr nanoseconds long_enough = std::chrono::microseconds(20);
  constexpr int bursts = 9;
  std::size_t calls = 16;
  while (burst(calls) < long_enough) calls *= 2;
  nanoseconds fastest{std::numeric_limits<double>::max()};
  for (int i = 0; i < bursts; ++i) fastest = std::min(fastest, nanoseconds(burst(calls)));
  return fastest / static_cast<double>(calls);
}

}  // namespace bench
