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

double& given_step_nanoseconds() {
  static double given = 0;
  return given;
}

double step_nanoseconds() {
  if (given_step_nanoseconds() > 0) return given_step_nanoseconds();
  static const double timed = one_step().count();
  return timed;
}

std::uint64_t steps_lasting(double nanoseconds) {
  return static_cast<std::uint64_t>(std::lround(nanoseconds / step_nanoseconds()));
}

}  // namespace bench
