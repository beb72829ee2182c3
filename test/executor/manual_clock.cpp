// manual_clock.cpp - time by hand.

#include "executor/timer_queue.hpp"
#include "support/dies.hpp"

#include <turnstile/detail/timer.hpp>
#include <turnstile/turnstile.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <latch>
#include <optional>
#include <thread>

using namespace turnstile;
using namespace std::chrono_literals;
using std::chrono::steady_clock;

namespace {

struct counting : detail::timer {
  counting() noexcept : timer(&count) {}
  static void count(timer& t) noexcept { ++static_cast<counting&>(t).calls; }
  int calls = 0;
};

struct told : detail::timer {
  told() noexcept : timer(&tell) {}
  static void tell(timer& t) noexcept { static_cast<told&>(t).over.count_down(); }
  std::latch over{1};
};

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("manual_clock: stands still until it is moved, and timers see it") {
    manual_clock clock;
    const auto begin = clock.now();
    CHECK(clock.now() == begin);
    CHECK(detail::timer_now() == begin);
    clock.advance(3s);
    CHECK(clock.now() == begin + 3s);
    CHECK(detail::timer_now() == begin + 3s);
    clock.advance_to(begin + 4s);
    CHECK(clock.now() == begin + 4s);
  }

  TEST_CASE("manual_clock: a time has come by it alone, however far the steady clock is") {
    manual_clock clock;
    const auto begin = clock.now();
    clock.advance(24h);
    CHECK(detail::has_come(begin + 24h));
    CHECK_FALSE(detail::has_come(begin + 24h + 1ns));
  }

  TEST_CASE("manual_clock: begins at the steady clock's time") {
    const auto before = steady_clock::now();
    const manual_clock clock;
    CHECK(clock.now() >= before);
    CHECK(clock.now() <= steady_clock::now());
  }

  // The library's thread is held up in the call of a first timer when the second one's time comes.
  TEST_CASE("manual_clock: one that begins calls what was due by the steady clock") {
    struct held_up : detail::timer {
      held_up() noexcept : timer(&wait) {}
      static void wait(timer& t) noexcept {
        auto& self = static_cast<held_up&>(t);
        self.begun.count_down();
        self.may_end.wait();
      }
      std::latch begun{1};
      std::latch may_end{1};
    };
    detail::prepare_timers();
    held_up first;
    told second;
    first.start(detail::timer_now());
    first.begun.wait();
    second.start(detail::timer_now());
    std::thread lets_go([&] {
      while (!detail::timers.goes_by_hand()) std::this_thread::yield();
      first.may_end.count_down();
    });
    const manual_clock clock;
    second.over.wait();
    lets_go.join();
    CHECK_FALSE(first.cancel());
    CHECK_FALSE(second.cancel());
  }

  TEST_CASE("manual_clock: one that begins within a call calls what is due by it") {
    struct beginning : detail::timer {
      explicit beginning(detail::timer& t) noexcept : timer(&begin), later(t) {}
      static void begin(timer& t) noexcept {
        auto& self = static_cast<beginning&>(t);
        self.clock.emplace();
        self.later.start(detail::timer_now() + 1s);
        self.clock->advance(2s);
      }
      detail::timer& later;
      std::optional<manual_clock> clock;
    };
    told second;
    beginning first(second);
    detail::prepare_timers();
    first.start(detail::timer_now());
    second.over.wait();
    CHECK_FALSE(second.cancel());
    CHECK_FALSE(first.cancel());
  }

  TEST_CASE("manual_clock: does not go back, nor beyond the end of time") {
    manual_clock clock;
    const auto begin = clock.now();
    clock.advance(-1s);
    clock.advance_to(begin - 1s);
    CHECK(clock.now() == begin);
    clock.advance(std::chrono::nanoseconds::max());
    clock.advance(std::chrono::nanoseconds::max());
    CHECK(clock.now() == steady_clock::time_point::max());
  }

  TEST_CASE("manual_clock: who moves it on moves it by that much, whoever else does") {
    manual_clock clock;
    const auto begun = clock.now();
    const auto move_on = [&] {
      for (int i = 0; i != 20000; ++i) clock.advance(1ns);
    };
    std::thread other(move_on);
    move_on();
    other.join();
    CHECK(clock.now() == begun + 40000ns);
  }

  TEST_CASE("manual_clock: calls what is due, and says how many wait") {
    manual_clock clock;
    counting a, b;
    a.start(clock.now() + 1s);
    b.start(clock.now() + 2s);
    CHECK(clock.pending() == 2);
    clock.advance(1s - 1ns);
    CHECK(a.calls == 0);
    clock.advance(1ns);
    CHECK(a.calls == 1);
    CHECK(clock.pending() == 1);
    clock.advance(1s);
    CHECK(b.calls == 1);
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("manual_clock: a timer that is started for a time that is past is called at once") {
    manual_clock clock;
    counting a;
    a.start(clock.now());
    CHECK(a.calls == 1);
    CHECK_FALSE(a.cancel());
  }

  TEST_CASE("manual_clock: timers that wait go by the steady clock after its end") {
    told t;
    {
      manual_clock clock;
      clock.advance(1h);
      t.start(steady_clock::now() + 2h);
      CHECK(t.cancel());
      t.start(clock.now() + 1ns - 1h);  // past by this clock
      t.over.wait();
      CHECK_FALSE(t.cancel());
    }
    told second;
    {
      const manual_clock clock;
      second.start(clock.now() + 1ms);
    }
    second.over.wait();
    CHECK_FALSE(second.cancel());
  }

  TEST_CASE("manual_clock: timers that wait when it begins go by it") {
    counting t;
    t.start(steady_clock::now() + 1h);
    manual_clock clock;
    CHECK(clock.pending() == 1);
    clock.advance(2h);
    CHECK(t.calls == 1);
  }

  TEST_CASE("manual_clock: one after the other") {
    for (int i = 0; i != 2; ++i) {
      manual_clock clock;
      counting t;
      t.start(clock.now() + 1s);
      clock.advance(1s);
      CHECK(t.calls == 1);
    }
  }

  TEST_CASE("manual_clock: a second one aborts") {
    const auto child = [] {
      const manual_clock first;
      const manual_clock second;
    };
    support::check_dies(child, "there is a manual_clock already");
  }
}
