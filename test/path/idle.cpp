// idle.cpp - with nothing to do, nothing is done.

#include "support/processor_time.hpp"

#include <turnstile/detail/timer.hpp>
#include <turnstile/turnstile.hpp>

#include <chrono>
#include <deque>
#include <doctest/doctest.h>
#include <thread>
#include <vector>

using namespace turnstile;
using support::processor_time;

namespace {

struct quiet_timer : detail::timer {
  quiet_timer() noexcept : timer([](timer&) noexcept {}) {}
};

// The interval is what is measured, so it has to pass. The first one lets threads lie down.
void check_idle() {
  using namespace std::chrono_literals;
  std::this_thread::sleep_for(50ms);
  const auto before = processor_time();
  std::this_thread::sleep_for(500ms);
  CHECK(processor_time() - before < 100ms);
}

task<> enter_all(std::deque<critical_section>& sections) {
  for (critical_section& cs : sections) co_await cs.execute([] {});
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("idle: a pool and 1000 sections use no processor time") {
    thread_pool pool{4};
    std::deque<critical_section> sections(1000);
    async_scope scope{{.executor = pool}};
    for (int i = 0; i != 8; ++i) scope.spawn(enter_all(sections));
    sync_wait(scope.join());
    check_idle();
  }

  TEST_CASE("idle: 100000 pending timers use no processor time") {
    std::deque<quiet_timer> timers(100000);
    auto at = detail::timer_now() + std::chrono::hours(1);
    for (quiet_timer& t : timers) t.start(at -= std::chrono::microseconds(1));
    check_idle();
    for (quiet_timer& t : timers) CHECK(t.cancel());
  }
}
