#include "support/work.hpp"

#include "support/stopwatch.hpp"

#include <benchmark/benchmark.h>
#include <cmath>

namespace bench {
namespace {

nanoseconds one_step() {
  return fastest_call([](std::size_t steps) {
    return time_of([steps] { benchmark::DoNotOptimize(multiply_add(1, steps)); });
  });
}

}  // namespace

std::uint64_t steps_lasting(double nanoseconds) {
  static const double step = one_step().count();
  // Multiples of four, so that a small difference between processes seldom changes the workload.
  return 4 * static_cast<std::uint64_t>(std::lround(nanoseconds / step / 4));
}

}  // namespace bench
