// late_stops.cpp - a stop or a deadline that comes when a request has its turn, or a place in a
// queue of an executor, and its body has not begun. Nobody withdraws it there, and it does not run.

#include "support/ending.hpp"
#include "support/hold.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <chrono>
#include <coroutine>
#include <doctest/doctest.h>
#include <functional>
#include <list>
#include <stop_token>
#include <string>
#include <tuple>
#include <utility>

using namespace turnstile;
using namespace std::chrono_literals;
using support::hold;

namespace {

// More than are served in a row.
constexpr int many = 40;

// Work of a scope, on an executor that runs when the test says so.
class client {
 public:
  explicit client(manual_executor& home) : scope_{{.executor = home}}, home_(&home) {}

  template <class A>
  void ask(A a) {
    scope_.spawn(endings_.emplace_back().of(std::move(a)));
    home_->run();
  }
  void stop_all() { scope_.request_stop(); }
  // In the order in which they asked.
  const std::list<support::ending>& endings() {
    home_->run();
    sync_wait(scope_.join());
    return endings_;
  }

 private:
  std::list<support::ending> endings_;
  async_scope scope_;
  manual_executor* home_;
};

// Calls `between` after it has arrived, and before its coroutine waits.
template <class Awaiter, class F>
struct called_between {
  Awaiter awaiter;
  F between;

  bool await_ready() {
    const bool ready = awaiter.await_ready();
    between();
    return ready;
  }
  template <class P>
  auto await_suspend(std::coroutine_handle<P> h) {
    return awaiter.await_suspend(h);
  }
  auto await_resume() { return awaiter.await_resume(); }
};

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("late stops: a guard of a bound section is refused, and others run where they belong") {
    manual_executor home;
    critical_section cs{{.executor = home}};
    registry::keep_times(cs, true);          // so that it does not go on at once
    async_scope scope{{.fail_fast = true}};  // which its work can tell
    int ran = 0;
    std::string how;
    const auto locks = [&]() -> task<> {
      const auto between = [&] {
        scope.request_stop();
        cs.post([&] { ++ran; });
      };
      try {
        const auto guard = co_await called_between{cs.lock(), between};
        how = "ran";
      } catch (const operation_cancelled&) {
        how = "cancelled";
      }
    };
    scope.spawn(locks());
    CHECK(ran == 0);
    home.run();
    sync_wait(scope.join());
    CHECK(how == "cancelled");
    CHECK(ran == 1);
  }

  TEST_CASE("late stops: between two sections") {
    manual_clock clock;
    manual_executor home;
    client all(home);
    critical_section a;
    critical_section b;
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    execute_options options{.stop = token};
    std::string how = "cancelled";
    SUBCASE("a stop") {}
    SUBCASE("a deadline") {
      options = {.deadline = clock.now() + 1ms};
      how = "expired";
    }
    int ran = 0;
    {
      const section_guard busy = hold(a);
      for (int i = 0; i != many; ++i) {
        all.ask(execute(std::tie(a, b), [&ran] { ++ran; }, options));
      }
    }
    const int before = ran;
    REQUIRE(before < many);  // one has the first section by now, and goes on elsewhere
    stop.request_stop();
    clock.advance(2ms);
    int nth = 0;
    for (const auto& each : all.endings()) CHECK(each.how == (nth++ < before ? "ran" : how));
    CHECK(ran == before);
  }

  TEST_CASE("late stops: before a section whose executor nobody runs, wherever the turn ends") {
    for (int before = 0; before != many; ++before) {
      manual_executor home;
      manual_executor nobodys;
      client all(home);
      critical_section a;
      critical_section b;
      critical_section bound{{.executor = nobodys}};
      std::stop_source stop;
      const std::stop_token token = stop.get_token();
      {
        const section_guard busy = hold(a);
        for (int i = 0; i != before; ++i) all.ask(execute(std::tie(a, b), [] {}));
        all.ask(execute(std::tie(a, bound), [] {}, {.stop = token}));
      }
      home.run();
      stop.request_stop();
      home.run();
      REQUIRE_FALSE(a.statistics().held);
      CHECK(all.endings().back().how == "cancelled");
      nobodys.run();
    }
  }

  TEST_CASE("late stops: it is found that it may run, and that is elsewhere") {
    int between = 0;
    for (int nth = 0; nth != many; ++nth) {
      for (const bool has_deadline : {false, true}) {
        manual_clock clock;
        manual_executor home;
        client all(home);
        critical_section cs;
        std::stop_source stop;
        const std::stop_token token = stop.get_token();
        execute_options options{.stop = token};
        if (has_deadline) options = {.deadline = clock.now() + 1ms};
        bool may = false;
        bool ran = false;
        all.ask(cs.execute_when([&may] { return may; }, [&ran] { ran = true; }, options));
        {
          const section_guard busy = hold(cs);
          for (int i = 0; i != many; ++i) {
            all.ask(cs.execute([&may, i, nth] { may = may || i == nth; }));
          }
        }
        const bool is_between = may && !ran;
        if (is_between) {
          stop.request_stop();
          clock.advance(2ms);
          ++between;
        }
        const std::string how = all.endings().front().how;
        CHECK(ran != is_between);
        CHECK(how == (!is_between ? "ran" : has_deadline ? "expired" : "cancelled"));
      }
    }
    CHECK(between != 0);
  }

  TEST_CASE("late stops: the same below a timeout") {
    int between = 0;
    for (int nth = 0; nth != many; ++nth) {
      manual_clock clock;
      manual_executor home;
      client all(home);
      critical_section cs;
      bool may = false;
      bool ran = false;
      all.ask(timeout(cs.execute_when([&may] { return may; }, [&ran] { ran = true; }), 1ms));
      {
        const section_guard busy = hold(cs);
        for (int i = 0; i != many; ++i) {
          all.ask(cs.execute([&may, i, nth] { may = may || i == nth; }));
        }
      }
      const bool is_between = may && !ran;
      if (is_between) {
        clock.advance(2ms);
        ++between;
      }
      CHECK(all.endings().front().how == (is_between ? "expired" : "ran"));
      CHECK(ran != is_between);
    }
    CHECK(between != 0);
  }

  // The scope does not know yet that it can be stopped, so there is nobody who withdraws them.
  TEST_CASE("late stops: first in line of a section that is bound to an executor") {
    manual_executor home;
    client all(home);
    manual_executor lane;
    critical_section cs({.executor = lane});
    critical_section other;
    int ran = 0;
    const auto body = [&ran] { ++ran; };
    const auto waits = [&ran]() -> task<> {
      ++ran;
      co_return;
    };
    SUBCASE("a body") { all.ask(cs.execute(body)); }
    SUBCASE("a body that waits") { all.ask(cs.execute(std::ref(waits))); }
    SUBCASE("a predicate") {
      all.ask(cs.execute_when([] { return true; }, body));
    }
    SUBCASE("one of two sections") { all.ask(execute(std::tie(other, cs), body)); }
    REQUIRE(lane.pending() == 1);
    all.stop_all();
    lane.run();
    CHECK(all.endings().front().how == "cancelled");
    CHECK(ran == 0);
    CHECK(!cs.statistics().held);
    CHECK(!other.statistics().held);
  }
}
