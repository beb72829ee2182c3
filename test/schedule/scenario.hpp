// scenario.hpp - what a schedule test is written with.
#pragma once

#include "schedule/checker/explore.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/threads.hpp>

#include <array>
#include <cstdio>
#include <doctest/doctest.h>
#include <functional>
#include <string_view>
#include <vector>

namespace schedule {

using turnstile::detail::atomic;
using turnstile::detail::guarded;
using turnstile::detail::thread;

// Every thread runs at once; returns when all are done.
inline void together(std::vector<std::function<void()>> work) {
  std::vector<thread> threads;
  threads.reserve(work.size());
  for (auto& w : work) threads.emplace_back(std::move(w));
  for (auto& t : threads) t.join();
}

// No execution fails.
inline void holds(const std::function<void()>& scenario, const how& h = {}) {
  const verdict v = explore(scenario, h);
  std::printf("  %s: %llu executions, %llu operations%s\n",
              doctest::getContextOptions()->currentTest->m_name,
              static_cast<unsigned long long>(v.executions),
              static_cast<unsigned long long>(v.steps),
              v.complete ? ", all there are within the bounds" : "");
  std::fputs(v.report.c_str(), stdout);
  std::fflush(stdout);
  CHECK(v.holds);
}

// Some execution fails, with these words in its report.
inline void fails(const std::function<void()>& scenario, std::string_view with, const how& h = {}) {
  const verdict v = explore(scenario, h);
  if (v.report.find(with) == v.report.npos) std::fputs(v.report.c_str(), stdout);
  CHECK_FALSE(v.holds);
  CHECK(v.report.find(with) != v.report.npos);
}

}  // namespace schedule
