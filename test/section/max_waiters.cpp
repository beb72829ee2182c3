// max_waiters.cpp - a section whose waiters are limited: refusing, or waiting outside.

#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::hold;
using support::loop;

namespace {

const auto nothing = [] {};

section_options at_most(std::size_t n, when_full then) {
  return {.name = "limited", .max_waiters = n, .on_full = then};
}

// Everything on one thread; what ran, in order.
struct stage {
  task<> note(critical_section& cs, int who, execute_options options = {}) {
    try {
      const auto body = [this, who] { order.push_back(who); };
      co_await cs.execute(body, options);
    } catch (const section_full&) {
      full.push_back(who);
    } catch (const section_closed&) {
      closed.push_back(who);
    } catch (const operation_cancelled&) {
      cancelled.push_back(who);
    } catch (const deadline_exceeded&) {
      expired.push_back(who);
    }
  }
  template <class A>
  void start(A a) {
    scope.spawn(std::move(a));
    here.run();
  }
  // Others may still serve, and post to us.
  void finish() {
    bool is_over = false;
    async_scope waits{{.executor = here}};
    waits.spawn([](async_scope& all, bool& over) -> task<> {
      co_await all.join();
      over = true;
    }(scope, is_over));
    while (!is_over) {
      here.run();
      std::this_thread::yield();
    }
    sync_wait(waits.join());
  }

  loop here;
  async_scope scope{{.executor = here}};
  std::vector<int> order, full, closed, cancelled, expired;
};

}  // namespace

TEST_SUITE("section") {
  TEST_CASE(
      "max_waiters: the request that would wait as one too many is refused, with the number") {
    stage s;
    critical_section cs(at_most(2, when_full::refuse));
    section_guard guard = hold(cs);
    for (int i = 0; i != 4; ++i) s.start(s.note(cs, i));
    CHECK(s.full == std::vector{2, 3});
    CHECK(cs.statistics().waiters == 2);
    CHECK(cs.statistics().refused == 2);
    CHECK_THROWS_WITH_AS(cs.post(nothing), doctest::Contains("2 requests wait"), section_full);
    CHECK_THROWS_AS(sync_wait(cs.submit(nothing)), section_full);
    critical_section other;
    CHECK_THROWS_AS(sync_wait(execute(std::tie(cs, other), nothing)), section_full);
    CHECK_FALSE(other.statistics().held);
    guard.unlock();
    s.finish();
    CHECK(s.order == std::vector{0, 1});
    s.start(s.note(cs, 5));
    CHECK(s.order.back() == 5);
    s.finish();
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("max_waiters: whoever finds it idle is never one too many") {
    critical_section cs(at_most(1, when_full::refuse));
    for (int i = 0; i != 10; ++i) sync_wait(cs.execute(nothing));
    for (int i = 0; i != 10; ++i) CHECK(cs.try_execute(nothing));
    for (int i = 0; i != 10; ++i) CHECK(cs.try_lock().has_value());
    for (int i = 0; i != 10; ++i) section_guard held = sync_wait(cs.lock());
    CHECK(cs.statistics().executions == 40);
  }

  TEST_CASE("max_waiters: tries are refused from when it begins to close, as by others") {
    stage s;
    critical_section cs(at_most(1, when_full::refuse));
    section_guard guard = hold(cs);
    CHECK_FALSE(cs.try_execute(nothing));
    bool closed = false;
    s.start([](critical_section& section, bool& over) -> task<> {
      co_await section.close();
      over = true;
    }(cs, closed));
    CHECK_THROWS_AS(cs.try_execute(nothing), section_closed);
    CHECK_THROWS_AS(cs.try_lock(), section_closed);
    CHECK(cs.statistics().refused == 2);
    guard.unlock();
    s.finish();
    CHECK(closed);
    CHECK_THROWS_AS(cs.try_execute(nothing), section_closed);
  }

  TEST_CASE("max_waiters: outside they wait in order, and come in one by one") {
    stage s;
    critical_section cs(at_most(2, when_full::wait_outside));
    section_guard guard = hold(cs);
    for (int i = 0; i != 7; ++i) s.start(s.note(cs, i));
    CHECK(cs.statistics().waiters == 2);
    CHECK(s.full.empty());
    guard.unlock();
    s.finish();
    CHECK(s.order == std::vector{0, 1, 2, 3, 4, 5, 6});
    CHECK(cs.statistics().executions == 8);
  }

  TEST_CASE("max_waiters: the place of one that was withdrawn is free once, not twice") {
    for (const when_full then : {when_full::refuse, when_full::wait_outside}) {
      stage s;
      critical_section cs(at_most(2, then));
      section_guard guard = hold(cs);
      std::stop_source stop;
      const std::stop_token token = stop.get_token();
      for (int i = 0; i != 2; ++i) s.start(s.note(cs, i, {.stop = token}));
      stop.request_stop();
      s.here.run();
      CHECK(s.cancelled.size() == 2);
      guard.unlock();
      CHECK(cs.try_execute(nothing));
      section_guard again = hold(cs);
      for (int i = 2; i != 4; ++i) s.start(s.note(cs, i));
      CHECK(cs.statistics().waiters == 2);
      CHECK_FALSE(cs.try_execute(nothing));
      again.unlock();
      s.finish();
      CHECK(s.order == std::vector{2, 3});
      CHECK(s.full.empty());
    }
  }

  TEST_CASE("max_waiters: submitted and posted ones wait outside, too") {
    stage s;
    critical_section cs(at_most(1, when_full::wait_outside));
    section_guard guard = hold(cs);
    s.start(s.note(cs, 0));
    auto handle = cs.submit([&s] { s.order.push_back(1); });
    cs.post([&s] { s.order.push_back(2); });
    s.start(s.note(cs, 3));
    CHECK(cs.statistics().waiters == 1);
    guard.unlock();
    sync_wait(handle);
    s.finish();  // first: on a slow machine the section may have been passed on to its executor
    sync_wait(cs.close());
    CHECK(s.order == std::vector{0, 1, 2, 3});
  }

  TEST_CASE("max_waiters: who is withdrawn makes room at once, inside and outside") {
    stage s;
    manual_clock clock;
    critical_section cs(at_most(2, when_full::wait_outside));
    std::stop_source stop;
    section_guard guard = hold(cs);
    s.start(s.note(cs, 0, {.stop = stop.get_token()}));
    s.start(s.note(cs, 1));
    s.start(s.note(cs, 2, {.deadline = clock.now() + 1s}));
    s.start(s.note(cs, 3));
    s.start(s.note(cs, 4));
    CHECK(cs.statistics().waiters == 2);
    clock.advance(1s);
    s.here.run();
    CHECK(s.expired == std::vector{2});
    stop.request_stop();
    s.here.run();
    CHECK(s.cancelled == std::vector{0});
    CHECK(cs.statistics().waiters == 2);  // 1 and, come in, 3
    guard.unlock();
    s.finish();
    CHECK(s.order == std::vector{1, 3, 4});
  }

  TEST_CASE("max_waiters: those withdrawn outside are not kept for long, though nobody is let in") {
    stage s;
    critical_section cs(at_most(1, when_full::wait_outside));
    section_guard guard = hold(cs);
    s.start(s.note(cs, 0));
    for (int i = 1; i != 4; ++i) s.start(s.note(cs, i));
    for (int i = 0; i != 500; ++i) {
      std::stop_source stop;
      s.start(s.note(cs, 9, {.stop = stop.get_token()}));
      stop.request_stop();
      s.here.run();
    }
    CHECK(s.cancelled.size() == 500);
    // Each that there is, outside or a spare one, has a share of the counts.
    CHECK(detail::section_access::core(cs).stand_ins().shares.load() < 40);
    guard.unlock();
    s.finish();
    CHECK(s.order == std::vector{0, 1, 2, 3});
  }

  TEST_CASE("max_waiters: who is closed outside does not count as gone from the line") {
    const auto seen_by_the_next = [](int outside) {
      stage s;
      critical_section cs(at_most(2, when_full::wait_outside));
      section_guard guard = hold(cs);
      std::size_t waiters = 0;
      const auto look = [&] { waiters = cs.statistics().waiters; };
      s.start(cs.execute(look));
      s.start(s.note(cs, 0));
      for (int i = 0; i != outside; ++i) s.start(s.note(cs, 1 + i));
      s.start(cs.close());
      guard.unlock();
      s.finish();
      CHECK(s.order == std::vector{0});
      CHECK(s.closed.size() == static_cast<std::size_t>(outside));
      return waiters;
    };
    CHECK(seen_by_the_next(0) >= 1);
    CHECK(seen_by_the_next(2) == seen_by_the_next(0));
  }

  TEST_CASE("max_waiters: refused ones leave nothing behind, however many there are") {
    stage s;
    critical_section cs(at_most(1, when_full::refuse));
    section_guard guard = hold(cs);
    s.start(s.note(cs, 0));
    for (int i = 0; i != 1000; ++i) CHECK_THROWS_AS(cs.post(nothing), section_full);
    CHECK(cs.statistics().most_waiters == 1);
    guard.unlock();
    s.finish();
  }

  TEST_CASE("max_waiters: no more are set aside, though each of them finds the section idle") {
    stage s;
    bool open = false;
    const auto is_open = [&] { return open; };
    loop gui;
    const auto start = [&](auto a) {
      s.start(std::move(a));
      gui.run();
      s.here.run();
    };
    const auto expect_refused = [&](const section_options& how, const std::stop_token* stop) {
      critical_section cs(how);
      critical_section other;
      const resource thing;
      for (int i = 0; i != 5; ++i) {
        execute_options asked;
        if (i >= 2) asked.uses = thing;
        if (stop != nullptr) asked.stop = *stop;
        start([](stage& on, critical_section& in, auto may, execute_options with,
                 int number) -> task<> {
          try {
            co_await in.execute_when(may, nothing, with);
          } catch (const section_full&) {
            on.full.push_back(number);
          }
        }(s, cs, is_open, asked, i));
      }
      CHECK(s.full == std::vector{2, 3, 4});
      CHECK(cs.statistics().waiters == 2);
      CHECK(cs.statistics().refused == 3);
      // What was refused at once claims nothing; a claim of what was in line stays.
      if (stop == nullptr) start(s.note(other, 4, {.uses = thing}));
      start(s.note(cs, 5));  // it need not wait
      open = true;
      start(s.note(cs, 6));
      CHECK(cs.statistics().waiters == 0);
      CHECK(s.order == (stop == nullptr ? std::vector{4, 5, 6} : std::vector{5, 6}));
    };
    const std::stop_source source;
    const std::stop_token stop = source.get_token();
    SUBCASE("they are refused") { expect_refused(at_most(2, when_full::refuse), nullptr); }
    SUBCASE("the same, behind stand-ins, in a bound section") {
      section_options bound = at_most(2, when_full::refuse);
      bound.executor = gui;
      expect_refused(bound, &stop);
    }
    SUBCASE("they may wait outside, and are set aside all the same") {
      critical_section cs(at_most(2, when_full::wait_outside));
      for (int i = 0; i != 5; ++i) s.start(cs.execute_when(is_open, nothing));
      CHECK(cs.statistics().waiters == 5);
      open = true;
      s.start(s.note(cs, 5));
      CHECK(cs.statistics().waiters == 0);
    }
    s.finish();
  }

  TEST_CASE("max_waiters: requests set aside count, but not those that need not wait") {
    stage s;
    synchronized<int> n{0, at_most(2, when_full::refuse)};
    critical_section& cs = n.section();
    int woken = 0;
    const auto wait_for = [&](int least) -> task<> {
      const auto enough = [least](const int& value) { return value >= least; };
      const auto note = [&woken](int&) { ++woken; };
      co_await n.execute_when(enough, note);
    };
    s.start(wait_for(1));
    s.start(wait_for(2));
    CHECK(cs.statistics().waiters == 2);
    s.start(n.execute([](int& value) { ++value; }));  // nobody is in: it does not wait
    CHECK(woken == 1);
    section_guard guard = hold(cs);
    s.start(s.note(cs, 1));
    s.start(s.note(cs, 2));
    CHECK(s.full == std::vector{2});
    guard.unlock();
    s.start(n.execute([](int& value) { ++value; }));
    CHECK(woken == 2);
    s.finish();
  }

  TEST_CASE("max_waiters: one that was set aside makes room when it runs, not when it is over") {
    stage s;
    critical_section cs(at_most(1, when_full::wait_outside));
    support::gate go_on;
    bool ready = false;
    const auto wait_aside = [&]() -> task<> {
      auto is_ready = [&ready] { return ready; };
      auto waits = [&go_on]() -> task<> { co_await go_on; };
      co_await cs.execute_when(is_ready, waits);
    };
    s.start(wait_aside());
    section_guard guard = hold(cs);
    s.start(s.note(cs, 1));
    CHECK(cs.statistics().waiters == 1);
    ready = true;
    guard.unlock();
    CHECK(cs.statistics().held);
    CHECK(cs.statistics().waiters == 1);  // in line now, where a close finds it
    s.start(cs.close());
    go_on.open();
    s.finish();
    CHECK(s.order == std::vector{1});
    CHECK(s.closed.empty());
  }

  TEST_CASE("max_waiters: closing refuses those outside") {
    stage s;
    critical_section cs(at_most(1, when_full::wait_outside));
    section_guard guard = hold(cs);
    for (int i = 0; i != 3; ++i) s.start(s.note(cs, i));
    bool closed = false;
    const auto close = [&]() -> task<> {
      co_await cs.close();
      closed = true;
    };
    s.start(close());
    s.start(s.note(cs, 3));
    CHECK(s.closed == std::vector{3});
    guard.unlock();
    s.finish();
    CHECK(closed);
    CHECK(s.order == std::vector{0});
    CHECK(s.closed == std::vector{3, 1, 2});
  }

  TEST_CASE("max_waiters: several sections wait outside of each in turn") {
    stage s;
    critical_section a(at_most(1, when_full::wait_outside));
    critical_section b(at_most(1, when_full::wait_outside));
    section_guard guard = hold(b);
    int ran = 0;
    const auto both = [&]() -> task<> {
      const auto body = [&ran] { ++ran; };
      co_await execute(std::tie(a, b), body);
    };
    for (int i = 0; i != 5; ++i) s.start(both());
    CHECK(ran == 0);
    guard.unlock();
    s.finish();
    CHECK(ran == 5);
    CHECK_FALSE(a.statistics().held);
    CHECK_FALSE(b.statistics().held);
  }

  TEST_CASE(
      "max_waiters: never more than that many wait, and everybody is served, on four threads") {
    thread_pool pool(4);
    async_scope scope{{.executor = pool}};
    critical_section cs(at_most(3, when_full::wait_outside));
    int n = 0;
    const auto work = [&]() -> task<> {
      for (int i = 0; i != 300; ++i) {
        const auto add = [&n] { ++n; };
        co_await cs.execute(add);
        co_await yield();
      }
    };
    for (int i = 0; i != 16; ++i) scope.spawn(work());
    sync_wait(scope.join());
    CHECK(n == 16 * 300);
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.statistics().waiters == 0);
  }
}
