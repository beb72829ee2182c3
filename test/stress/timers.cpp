// timers.cpp - timers and sleeps that are called, cancelled and stopped by several threads at once.
//
// Each has to end once: a sleep that nobody ends shows as a test that does not end.

#include "stress/crew.hpp"
#include "stress/dice.hpp"
#include "support/foreign.hpp"
#include "support/stoppable.hpp"

#include <turnstile/detail/timer.hpp>
#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <stop_token>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using stress::dice;
using support::foreign;

namespace {

void dawdle(dice& d) {
  for (unsigned n = d.below(2000); n != 0; --n) detail::pause();
}

struct counting : detail::timer {
  counting() noexcept : timer(&count) {}
  static void count(timer& t) noexcept { ++static_cast<counting&>(t).calls; }
  int calls = 0;  // ordered by cancel
};

// How often cancel and call disagreed.
int start_and_cancel(dice& d, int rounds) {
  int wrong = 0;
  for (int i = 0; i != rounds; ++i) {
    const auto t = std::make_unique<counting>();
    t->start(detail::timer_now() + d.below(30000) * 1ns);
    dawdle(d);
    const bool cancelled = t->cancel();
    if (t->calls != (cancelled ? 0 : 1)) ++wrong;
  }
  return wrong;
}

struct ends {
  std::atomic<int> due{0};
  std::atomic<int> stopped{0};
};

foreign sleep_once(std::chrono::nanoseconds time, ends& n) {
  try {
    co_await sleep_for(time);
    n.due.fetch_add(1);
  } catch (const operation_cancelled&) {
    n.stopped.fetch_add(1);
  }
}

// One thread begins sleeps while two others stop some of them, perhaps before they have begun.
void sleep_and_stop(std::uint32_t round) {
  constexpr int groups = 16;
  constexpr int of_a_group = 8;
  std::vector<std::stop_source> sources(groups);
  std::vector<foreign> sleeps;
  ends n;
  stress::together(3, [&](int who) {
    dice d(3 * round + static_cast<std::uint32_t>(who));
    for (const std::stop_source& group : sources) {
      if (who == 0) {
        const support::stoppable around(group.get_token());
        for (int i = 0; i != of_a_group; ++i) {
          sleeps.push_back(sleep_once(d.below(100000) * 1ns, n));
        }
      } else {
        dawdle(d);
        if (d.one_in(2)) std::stop_source(group).request_stop();
      }
    }
  });
  for (const foreign& f : sleeps) f.wait();
  REQUIRE(n.due + n.stopped == groups * of_a_group);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("timers: each is called or cancelled, whoever is faster") {
    std::atomic<int> wrong{0};
    const int rounds = stress::times_scale(stress::sanitized ? 2000 : 20000);
    stress::together(4, [&](int who) {
      dice d(100 + static_cast<std::uint32_t>(who));
      wrong += start_and_cancel(d, rounds);
    });
    CHECK(wrong == 0);
  }

  TEST_CASE("timers: each sleep ends once, by its time or by a stop") {
    const int rounds = stress::times_scale(stress::sanitized ? 50 : 300);
    for (int i = 0; i != rounds; ++i) sleep_and_stop(1000 + static_cast<std::uint32_t>(i));
  }
}
