// timers.cpp - calls at their time: order, cancel, many.

#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/timer.hpp>
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <latch>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using detail::timer;
using std::chrono::steady_clock;

namespace {

using calls = std::vector<int>;

struct listed : timer {
  listed(calls& c, int i) noexcept : timer(&note), list(&c), id(i) {}
  static void note(timer& t) noexcept {
    auto& self = static_cast<listed&>(t);
    self.list->push_back(self.id);
  }
  calls* list;
  int id;
};

// Says when it was called.
struct clocked : timer {
  clocked() noexcept : timer(&note) {}
  static void note(timer& t) noexcept {
    auto& self = static_cast<clocked&>(t);
    self.called_at = steady_clock::now();
    self.over.count_down();  // self may be gone
  }
  steady_clock::time_point called_at;
  std::latch over{1};
};

// Its call waits until it is let go.
struct held : timer {
  held() noexcept : timer(&hold) {}
  static void hold(timer& t) noexcept {
    auto& self = static_cast<held&>(t);
    self.begun.count_down();
    self.let_go.wait();
    self.ended = true;
  }
  std::latch begun{1};
  std::latch let_go{1};
  std::atomic<bool> ended{false};
};

struct cancels_itself : timer {
  cancels_itself() noexcept : timer(&call) {}
  static void call(timer& t) noexcept {
    auto& self = static_cast<cancels_itself&>(t);
    self.said = self.cancel();
    self.over.count_down();
  }
  bool said = true;
  std::latch over{1};
};

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("timers: a time has come when the steady clock says so, be it near or far") {
    using std::chrono::time_point_cast;
    const auto now = [] {
      return time_point_cast<detail::time_point::duration>(steady_clock::now());
    };
    CHECK(detail::has_come(detail::time_point::min()));
    CHECK_FALSE(detail::has_come(detail::time_point::max()));
    for (const auto ahead : {0ms, 1ms, 999ms, 1001ms, 100000ms}) {
      CAPTURE(ahead.count());
      CHECK(detail::has_come(now() - ahead));
      const auto t = now() + ahead;
      const bool came = detail::has_come(t);
      CHECK((!came || now() >= t));
    }
    for (int i = 0; i != 100000; ++i) {
      const auto before = detail::coarse_now();
      REQUIRE(before <= steady_clock::now());
    }
    // From far to near to come.
    const auto soon = now() + 1050ms;
    while (!detail::has_come(soon)) std::this_thread::yield();
    CHECK(now() >= soon);
  }

  TEST_CASE(
      "timers: are called in the order of time, and of one time in the order of their start") {
    manual_clock clock;
    calls list;
    listed a(list, 1), b(list, 2), c(list, 3), d(list, 4);
    const auto now = clock.now();
    d.start(now + 2s);
    b.start(now + 1s);
    a.start(now + 500ms);
    c.start(now + 1s);
    clock.advance(1s);
    CHECK(list == calls{1, 2, 3});
    clock.advance(1s);
    CHECK(list == calls{1, 2, 3, 4});
  }

  TEST_CASE("timers: a cancelled one is not called, and says so") {
    manual_clock clock;
    calls list;
    listed a(list, 1), b(list, 2), c(list, 3);
    for (listed* t : {&a, &b, &c}) t->start(clock.now() + 1s);
    CHECK(b.cancel());
    CHECK(clock.pending() == 2);
    clock.advance(1s);
    CHECK(list == calls{1, 3});
    CHECK(b.cancel());
    CHECK_FALSE(a.cancel());
  }

  TEST_CASE("timers: one that was never started cancels as one that is not called") {
    calls list;
    listed a(list, 1);
    CHECK(a.cancel());
  }

  TEST_CASE("timers: one may be started again after it was cancelled, called or not") {
    manual_clock clock;
    calls list;
    listed a(list, 1);
    a.start(clock.now() + 1s);
    CHECK(a.cancel());
    a.start(clock.now() + 2s);
    clock.advance(1s);
    CHECK(list.empty());
    clock.advance(1s);
    CHECK_FALSE(a.cancel());
    a.start(clock.now() + 1s);
    clock.advance(1s);
    CHECK(list == calls{1, 1});
  }

  TEST_CASE("timers: 100000 in any order are called in the order of time, less those cancelled") {
    constexpr int n = 100000;
    manual_clock clock;
    calls list;
    std::deque<listed> all;
    std::minstd_rand numbers(1);
    calls expected;
    const auto begin = clock.now();
    std::vector<int> times;
    for (int i = 0; i != n; ++i) {
      times.push_back(static_cast<int>(numbers() % 1000));
      all.emplace_back(list, i).start(begin + times.back() * 1ms + 1ms);
    }
    for (int i = 0; i != n; ++i) {
      if (i % 3 == 0) {
        REQUIRE(all[static_cast<std::size_t>(i)].cancel());
      } else {
        expected.push_back(i);
      }
    }
    CHECK(clock.pending() == expected.size());
    std::ranges::sort(expected, {},
                      [&](int i) { return std::pair(times[static_cast<std::size_t>(i)], i); });
    for (int i = 0; i != 10; ++i) clock.advance(101ms);
    CHECK(list == expected);
  }

  TEST_CASE("timers: by the steady clock none is called before its time") {
    std::deque<clocked> all(8);
    const auto begin = steady_clock::now();
    for (int i = 8; i-- != 0;) all[static_cast<std::size_t>(i)].start(begin + i * 2ms);
    for (int i = 0; i != 8; ++i) {
      clocked& t = all[static_cast<std::size_t>(i)];
      t.over.wait();
      CHECK(t.called_at >= begin + i * 2ms);
      CHECK_FALSE(t.cancel());
    }
  }

  TEST_CASE("timers: an earlier one is called although the thread waits for a later one") {
    clocked late, early;
    late.start(steady_clock::now() + 10h);
    early.start(steady_clock::now() + 1ms);
    early.over.wait();
    CHECK_FALSE(early.cancel());
    CHECK(late.cancel());
  }

  TEST_CASE("timers: one whose time is past is called, not inside start") {
    cancels_itself t;
    t.start(steady_clock::now() - 1s);
    t.over.wait();
    CHECK_FALSE(t.cancel());
  }

  TEST_CASE("timers: a cancel inside the call returns at once") {
    cancels_itself t;
    t.start(steady_clock::now());
    t.over.wait();
    t.cancel();
    CHECK_FALSE(t.said);
  }

  TEST_CASE("timers: a cancel waits for the call that another thread makes") {
    held t;
    t.start(steady_clock::now());
    t.begun.wait();
    std::latch cancels(1);
    bool cancelled = true;
    bool had_ended = false;
    std::jthread other([&] {
      cancels.count_down();
      cancelled = t.cancel();
      had_ended = t.ended;
    });
    cancels.wait();
    t.let_go.count_down();
    other.join();
    CHECK_FALSE(cancelled);
    CHECK(had_ended);
  }

  TEST_CASE("timers: while one is called others are started and cancelled") {
    held t;
    t.start(steady_clock::now());
    t.begun.wait();
    clocked late, early;
    late.start(steady_clock::now() + 10h);
    early.start(steady_clock::now());
    CHECK(late.cancel());
    t.let_go.count_down();
    early.over.wait();
    CHECK_FALSE(early.cancel());
    CHECK_FALSE(t.cancel());
  }

  TEST_CASE("timers: one for the end of time waits, and is cancelled") {
    calls list;
    listed t(list, 1);
    t.start(steady_clock::time_point::max());
    CHECK(t.cancel());
    CHECK(list.empty());
  }
}
