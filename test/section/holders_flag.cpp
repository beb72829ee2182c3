// holders_flag.cpp - TensorFlow's defect, by construction: there a waiter that is cancelled clears
// the flag of whoever holds the section, and a third one gets in beside the holder.

#include "support/gate.hpp"
#include "support/loop.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <stop_token>
#include <thread>
#include <tuple>
#include <utility>

using namespace turnstile;
using namespace std::chrono_literals;
using support::loop;

namespace {

const auto nothing = [] {};

task<> submit_and_wait(critical_section& cs, execute_options o) {
  auto handle = cs.submit(nothing, o);
  co_await handle;
}

// Everything on one thread, step by step: the holder, the waiter that goes, the third.
struct scene {
  template <class A>
  void start(A a) {
    scope.spawn(std::move(a));
    here.run();
  }

  // Awaits `a`, and says whether it was withdrawn.
  template <class A>
  task<> head(A a) {
    try {
      co_await std::move(a);
    } catch (const operation_cancelled&) {
      ++gone;
    } catch (const deadline_exceeded&) {
      ++gone;
    }
  }

  // What was submitted may go on elsewhere first.
  void wait_until_gone(int n) {
    while (gone != n) {
      if (here.run() == 0) std::this_thread::yield();
    }
  }

  void hold(critical_section& cs, bool by_guard) {
    if (by_guard) {
      start(hold_by_guard(cs));
    } else {
      start(cs.execute([this]() -> task<> { return stay_inside(); }));
    }
  }

  // While somebody holds `cs`: whoever asks now stays out.
  void check_held(critical_section& cs) {
    CHECK(inside == 1);
    CHECK(cs.statistics().held);
    CHECK_FALSE(cs.try_execute([this] { ++intruders; }));
    CHECK_FALSE(cs.try_lock().has_value());
    start(cs.execute([this] { intruders += inside; }));
    start(third_with_a_guard(cs));
    CHECK(cs.statistics().waiters == 2);
    CHECK(intruders == 0);
  }

  void finish() {
    leave.open();
    here.run();
    sync_wait(scope.join());
    CHECK(inside == 0);
    CHECK(intruders == 0);
  }

  task<> stay_inside() {
    ++inside;
    co_await leave.passed();
    --inside;
  }
  task<> hold_by_guard(critical_section& cs) {
    const section_guard guard = co_await cs.lock();
    co_await stay_inside();
  }
  task<> third_with_a_guard(critical_section& cs) {
    const section_guard guard = co_await cs.lock();
    intruders += inside;
  }

  manual_clock clock;
  loop here;
  async_scope scope{{.executor = here}};
  support::gate leave;
  std::stop_source stop;
  const std::stop_token token = stop.get_token();
  int inside = 0;
  int intruders = 0;
  int gone = 0;
};

// `ask` puts one in line, `go` withdraws it.
template <class Ask, class Go>
void check_defect(Ask ask, Go go) {
  for (const bool by_guard : {true, false}) {
    CAPTURE(by_guard);
    critical_section cs;
    scene s;
    s.hold(cs, by_guard);
    ask(s, cs);
    CHECK(s.gone == 0);
    go(s);
    s.wait_until_gone(1);
    s.check_held(cs);
    s.finish();
    CHECK(cs.statistics().executions == 3);
    CHECK(cs.statistics().withdrawn == 1);
    CHECK_FALSE(cs.statistics().held);
  }
}

template <class Ask>
void check_defect(Ask ask) {
  SUBCASE("by its token") {
    check_defect(
        [&ask](scene& s, critical_section& cs) { ask(s, cs, execute_options{.stop = s.token}); },
        [](scene& s) { s.stop.request_stop(); });
  }
  SUBCASE("by its deadline") {
    check_defect(
        [&ask](scene& s, critical_section& cs) {
          ask(s, cs, execute_options{.deadline = s.clock.now() + 1s});
        },
        [](scene& s) { s.clock.advance(1s); });
  }
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("TensorFlow's defect: a withdrawn execution leaves the holder's flag alone") {
    check_defect([](scene& s, critical_section& cs, const execute_options& o) {
      s.start(s.head(cs.execute(nothing, o)));
    });
  }

  TEST_CASE("TensorFlow's defect: a withdrawn lock leaves the holder's flag alone") {
    check_defect([](scene& s, critical_section& cs, const execute_options& o) {
      s.start(s.head(cs.lock(o)));
    });
  }

  TEST_CASE("TensorFlow's defect: a withdrawn submission leaves the holder's flag alone") {
    check_defect([](scene& s, critical_section& cs, const execute_options& o) {
      s.start(s.head(submit_and_wait(cs, o)));
    });
  }

  TEST_CASE("TensorFlow's defect: a withdrawn execute_when leaves the holder's flag alone") {
    check_defect([](scene& s, critical_section& cs, const execute_options& o) {
      s.start(s.head(cs.execute_when([] { return true; }, nothing, o)));
    });
  }

  TEST_CASE("TensorFlow's defect: so does one that was set aside before") {
    critical_section cs;
    scene s;
    s.start(s.head(cs.execute_when([] { return false; }, nothing, {.stop = s.stop.get_token()})));
    CHECK_FALSE(cs.statistics().held);
    SUBCASE("held by a guard") { s.hold(cs, true); }
    SUBCASE("held by a body") { s.hold(cs, false); }
    s.stop.request_stop();
    s.wait_until_gone(1);
    s.check_held(cs);
    s.finish();
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("TensorFlow's defect: a withdrawn request for several sections leaves only its own") {
    for (const bool by_guard : {true, false}) {
      CAPTURE(by_guard);
      critical_section first;
      critical_section second;
      scene s;
      s.hold(second, by_guard);
      s.start(s.head(execute(std::tie(second, first), nothing, {.stop = s.stop.get_token()})));
      CHECK(first.statistics().held);
      s.stop.request_stop();
      s.wait_until_gone(1);
      CHECK_FALSE(first.statistics().held);
      CHECK(first.try_execute(nothing));
      s.check_held(second);
      s.finish();
      CHECK_FALSE(second.statistics().held);
    }
  }

  TEST_CASE("TensorFlow's defect: nor is the flag cleared of who has come to hold it since") {
    critical_section cs;
    scene s;
    support::gate first_leaves;
    const auto first = [&]() -> task<> {
      const section_guard guard = co_await cs.lock();
      co_await first_leaves.passed();
    };
    s.start(first());
    s.start(s.hold_by_guard(cs));
    s.start(s.head(cs.execute(nothing, {.stop = s.stop.get_token()})));
    first_leaves.open();
    s.here.run();
    s.stop.request_stop();
    s.wait_until_gone(1);
    s.check_held(cs);
    s.finish();
  }

  TEST_CASE(
      "TensorFlow's defect: all who wait go, one after the other, and the holder stays alone") {
    critical_section cs;
    scene s;
    s.hold(cs, true);
    for (int i = 1; i != 40; ++i) {
      std::stop_source stop;
      s.start(s.head(cs.execute(nothing, {.stop = stop.get_token()})));
      stop.request_stop();
      s.wait_until_gone(i);
      CHECK_FALSE(cs.try_execute(nothing));
    }
    s.check_held(cs);
    s.finish();
    CHECK(cs.statistics().withdrawn == 39);
  }
}
