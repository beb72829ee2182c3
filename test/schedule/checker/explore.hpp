// explore.hpp - run a scenario again and again, each time another way.
#pragma once

#include "schedule/checker/choices.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace schedule {

struct how {
  bounds most{};
  // Added to the clock whenever somebody looks at it.
  std::chrono::nanoseconds look_takes{0};
  // So many with random priorities, for what is too large to be searched.
  std::uint64_t random_executions = 0;
};

struct verdict {
  bool holds = false;
  bool complete = false;  // a search that came to its end
  std::uint64_t executions = 0;
  std::uint64_t steps = 0;
  std::string report;  // of what went wrong
};

// Runs `scenario` in a process of its own, for nothing that fails in it can be undone.
//
// SCHEDULE_MODE=search|random|pct, SCHEDULE_PREEMPTIONS, SCHEDULE_SURPRISES, SCHEDULE_SEED,
// SCHEDULE_EXECUTIONS, SCHEDULE_SECONDS (which may have decimals) and SCHEDULE_REPLAY override what
// it asks for.
verdict explore(const std::function<void()>& scenario, const how& h);

}  // namespace schedule
