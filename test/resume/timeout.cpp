// timeout.cpp - something that is given a limited time.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <type_traits>
#include <utility>

using namespace turnstile;
using namespace std::chrono_literals;
using support::counted;
using support::foreign;
using support::gate;

namespace {

task<int> number(int n) { co_return n; }

task<int> wait_then_give(gate& g, int n) {
  co_await g;
  co_return n;
}

task<> wait_then_throw(gate& g, const char* text) {
  co_await g;
  throw std::runtime_error(text);
}

// Work that goes on until the gate is opened.
struct endless {
  endless() { scope.spawn(wait_then_give(end, 0)); }
  ~endless() {
    end.open();
    sync_wait(scope.join());
  }
  gate end;
  async_scope scope;
};

foreign run(task<> t) { co_await std::move(t); }

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("timeout: gives what it is given, in time") {
    CHECK(sync_wait(timeout(number(3), 1h)) == 3);
    int x = 0;
    auto reference = [&]() -> task<int&> { co_return x; };
    static_assert(std::is_same_v<decltype(sync_wait(timeout(reference(), 1h))), int&>);
    CHECK(&sync_wait(timeout(reference(), 1h)) == &x);
    auto unique = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); };
    CHECK(*sync_wait(timeout(unique(), 1h)) == 4);
    auto nothing = []() -> task<> { co_return; };
    static_assert(std::is_void_v<decltype(sync_wait(timeout(nothing(), 1h)))>);
    sync_wait(timeout(nothing(), 1h));
  }

  TEST_CASE("timeout: leaves no timer behind") {
    manual_clock clock;
    gate g;
    bool over = false;
    const foreign f = support::await_in_foreign(timeout(wait_then_give(g, 1), 1h), over);
    CHECK(clock.pending() == 1);
    g.open();
    CHECK(over);
    CHECK(clock.pending() == 0);
  }

  TEST_CASE(
      "timeout: nor does a coroutine that is destroyed while it waits for something foreign") {
    manual_clock clock;
    gate g;
    {
      bool over = false;
      const foreign f = support::await_in_foreign(timeout(wait_then_give(g, 1), 1h), over);
      CHECK(clock.pending() == 1);
    }
    CHECK(clock.pending() == 0);
    clock.advance(2h);
  }

  TEST_CASE("timeout: may be gone before the stop that it asks for is over") {
    struct inline_executor {
      void post(job& j) noexcept { j.run(); }
    } at_once;
    manual_clock clock;
    const auto sleeps = []() -> task<> {
      const std::stop_token token = co_await current_stop_token();
      const std::stop_callback in_line(token, [] {});  // which the stop comes to later
      co_await sleep_for(2h);
    };
    bool over = false;
    const foreign f = support::await_in_foreign(schedule_on(at_once,
                                                            [](auto work) -> task<> {
                                                              try {
                                                                co_await timeout(work(), 1h);
                                                              } catch (const deadline_exceeded&) {
                                                              }
                                                            }(sleeps)),
                                                over);
    clock.advance(1h);
    CHECK(over);
  }

  TEST_CASE("timeout: when the time is over, what waits in the library ends") {
    manual_clock clock;
    endless work;
    bool over = false;
    const foreign f = support::await_in_foreign(timeout(work.scope.join(), 10s), over);
    clock.advance(9s);
    CHECK_FALSE(f.done());
    clock.advance(1s);
    f.wait();
    CHECK_THROWS_AS(f.rethrow(), deadline_exceeded);
  }

  TEST_CASE("timeout: of a sleep") {
    manual_clock clock;
    bool over = false;
    const foreign f = support::await_in_foreign(timeout(sleep_for(1h), 1s), over);
    clock.advance(1s);
    f.wait();
    CHECK_THROWS_AS(f.rethrow(), deadline_exceeded);
  }

  TEST_CASE("timeout: of no time starts what it is given, which waits for nothing") {
    endless work;
    bool started = false;
    auto joins = [&]() -> task<> {
      started = true;
      co_await work.scope.join();
    };
    CHECK_THROWS_AS(sync_wait(timeout(joins(), 0s)), deadline_exceeded);
    CHECK(started);
    CHECK_THROWS_AS(sync_wait(timeout(work.scope.join(), -1s)), deadline_exceeded);
  }

  TEST_CASE("timeout: a value or an error that comes all the same is given") {
    manual_clock clock;
    gate g;
    std::stop_token token;
    int got = 0;
    auto gives = [&]() -> task<> {
      auto looks = [&]() -> task<int> {
        token = co_await current_stop_token();
        co_return co_await wait_then_give(g, 5);
      };
      got = co_await timeout(looks(), 1s);
    };
    const foreign one = run(gives());
    bool over = false;
    const foreign two = support::await_in_foreign(timeout(wait_then_throw(g, "late"), 1s), over);
    CHECK_FALSE(token.stop_requested());
    clock.advance(2s);
    CHECK(token.stop_requested());
    g.open();
    CHECK(got == 5);
    CHECK_THROWS_WITH(two.rethrow(), "late");
  }

  TEST_CASE("timeout: stopped from outside, it is cancelled and not late") {
    manual_clock clock;
    endless work;
    async_scope scope;
    scope.spawn(timeout(work.scope.join(), 1s));
    scope.request_stop();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
  }

  TEST_CASE("timeout: a cancellation from within, in time, is one") {
    auto cancelled = []() -> task<> {
      throw operation_cancelled();
      co_return;
    };
    CHECK_THROWS_AS(sync_wait(timeout(cancelled(), 1h)), operation_cancelled);
  }

  TEST_CASE("timeout: the inner one of two is late, and the outer one hears of it as an error") {
    manual_clock clock;
    endless work;
    bool over = false;
    const foreign f = support::await_in_foreign(timeout(timeout(work.scope.join(), 1s), 10s), over);
    clock.advance(1s);
    f.wait();
    CHECK_THROWS_AS(f.rethrow(), deadline_exceeded);
  }

  TEST_CASE("timeout: the outer one of two is late, whatever the inner one was given") {
    manual_clock clock;
    endless work;
    bool over = false;
    const foreign f = support::await_in_foreign(timeout(timeout(work.scope.join(), 10s), 1s), over);
    clock.advance(1s);
    f.wait();
    CHECK_THROWS_AS(f.rethrow(), deadline_exceeded);
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("timeout: below when_all, its error counts and not the cancellations it sets off") {
    manual_clock clock;
    endless work;
    async_scope scope{{.fail_fast = true}};
    scope.spawn(work.scope.join());
    scope.spawn(timeout(work.scope.join(), 1s));
    scope.spawn(work.scope.join());
    clock.advance(1s);
    CHECK_THROWS_AS(sync_wait(scope.join()), deadline_exceeded);
  }

  TEST_CASE("timeout: in when_any, time decides") {
    manual_clock clock;
    endless work;
    bool over = false;
    const foreign f = support::await_in_foreign(
        when_any(work.scope.join(), sleep_for(1s), work.scope.join()), over);
    clock.advance(1s);
    f.wait();
    CHECK(over);
  }

  TEST_CASE("timeout: results are destroyed exactly once") {
    {
      auto value = [](int n) -> task<counted> { co_return counted(n); };
      auto whole = [&]() -> task<int> {
        const int a = (co_await timeout(value(1), 1h)).value;
        const counted b = co_await timeout(value(2), 1h);
        co_return a + b.value;
      };
      CHECK(sync_wait(whole()) == 3);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("timeout: awaiting one twice, or one that was moved from, aborts") {
    const auto make = [] { return timeout(number(1), 1h); };
    const auto check = [&](auto await) {
      const auto child = [&] {
        const manual_clock clock;
        await(make());
      };
      support::check_dies(child, "a task is awaited");
    };
    check([](auto t) { support::await_twice(std::move(t)); });
    check([](auto t) { support::await_moved_from(std::move(t)); });
  }
}
