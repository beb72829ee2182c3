// execution.hpp - running a scenario once. For explore.cpp; world.hpp is for what runs.
#pragma once

#include "schedule/checker/choices.hpp"
#include "schedule/checker/world.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

namespace schedule {

struct conditions {
  std::chrono::nanoseconds look_takes{0};  // what every look at the clock adds to it
  bool everywhere = false;                 // ask about threads at every site, contended or not
};

void run_once(const std::function<void()>& scenario, chooser& c, const conditions& under);

unsigned steps_of_last_run() noexcept;

// Of the execution as far as it went.
std::string report_on(std::string_view what);

// What fail does with a report; it must not return.
void on_failure(std::function<void(const std::string& report)> f);

}  // namespace schedule
