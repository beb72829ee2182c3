// when_any.cpp - the first of several awaitables, and what becomes of the others.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;
using support::loop;

namespace {

task<int> number(int n) { co_return n; }

task<> nothing() { co_return; }

task<int> wait_then_give(gate& g, int n) {
  co_await g;
  co_return n;
}

task<int> wait_then_throw(gate& g, const char* text) {
  co_await g;
  throw std::runtime_error(text);
}

task<int> wait_then_cancel(gate& g) {
  co_await g;
  throw operation_cancelled();
}

// Ends when its surroundings say so.
task<int> join(async_scope& s) {
  co_await s.join();
  co_return 0;
}

task<int> join_then_throw(async_scope& s, const char* text) {
  try {
    co_await s.join();
  } catch (const operation_cancelled&) {
    throw std::runtime_error(text);
  }
  co_return 0;
}

template <class... A>
foreign any_in_foreign(any_result<std::variant<int, int>>& out, A... a) {
  out = co_await when_any(std::move(a)...);
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

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("when_any: says which one ended first, and gives what that gave") {
    const auto got = sync_wait(when_any(number(7), number(8)));
    static_assert(std::is_same_v<decltype(got), const any_result<std::variant<int, int>>>);
    CHECK(got.index == 0);
    CHECK(std::get<0>(got.value) == 7);
  }

  TEST_CASE("when_any: monostate for void, a wrapper for a reference, move-only values") {
    int x = 0;
    auto reference = [&]() -> task<int&> { co_return x; };
    auto unique = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); };
    auto got = sync_wait(when_any(reference(), unique(), nothing()));
    using expected =
        std::variant<std::reference_wrapper<int>, std::unique_ptr<int>, std::monostate>;
    static_assert(std::is_same_v<decltype(got.value), expected>);
    CHECK(&std::get<0>(got.value).get() == &x);
    auto owner = sync_wait(when_any(unique(), reference()));
    CHECK(*std::get<0>(owner.value) == 4);
    CHECK(sync_wait(when_any(nothing())).value.index() == 0);
  }

  TEST_CASE("when_any: of a range gives the value alone") {
    std::vector<task<int>> tasks;
    for (int i = 3; i != 6; ++i) tasks.push_back(number(i));
    auto got = sync_wait(when_any(std::move(tasks)));
    static_assert(std::is_same_v<decltype(got), any_result<int>>);
    CHECK(got.index == 0);
    CHECK(got.value == 3);
    std::vector<task<>> more;
    more.push_back(nothing());
    static_assert(
        std::is_same_v<decltype(sync_wait(when_any(std::move(more)))), any_result<std::monostate>>);
    CHECK(sync_wait(when_any(std::move(more))).index == 0);
  }

  TEST_CASE("when_any: of an empty range is a bad argument") {
    CHECK_THROWS_AS(static_cast<void>(when_any(std::vector<task<int>>{})), std::invalid_argument);
  }

  TEST_CASE("when_any: one that resumes another one in place is asked to stop when that ends") {
    gate g;
    endless work;
    bool can_be_stopped = false;
    const auto opens = [&]() -> task<int> {
      g.open();
      can_be_stopped = (co_await current_stop_token()).stop_possible();
      co_return co_await join(work.scope);
    };
    const any_result<std::variant<int, int>> first =
        sync_wait(when_any(wait_then_give(g, 1), opens()));
    CHECK(first.index == 0);
    CHECK(can_be_stopped);
  }

  TEST_CASE("when_any: starts all of them, and resumes when all have ended") {
    gate first;
    gate second;
    any_result<std::variant<int, int>> got{9, {}};
    const foreign f = any_in_foreign(got, wait_then_give(first, 1), wait_then_give(second, 2));
    CHECK(first.waiting() == 1);
    CHECK(second.waiting() == 1);
    second.open();
    CHECK_FALSE(f.done());
    first.open();
    CHECK(f.done());
    CHECK(got.index == 1);
    CHECK(std::get<1>(got.value) == 2);
  }

  TEST_CASE("when_any: joins below it end when the first one has ended") {
    endless work;
    const auto got = sync_wait(when_any(join(work.scope), number(5), join(work.scope)));
    CHECK(got.index == 1);
    CHECK(std::get<1>(got.value) == 5);
  }

  TEST_CASE("when_any: waits for handles below it end, and the handle may be awaited again") {
    gate g;
    critical_section cs;
    auto handle = cs.submit([&g] { return wait_then_give(g, 6); });
    auto wait = [&]() -> task<int> { co_return co_await handle; };
    const auto got = sync_wait(when_any(wait(), number(5)));
    CHECK(got.index == 1);
    CHECK_FALSE(handle.ready());
    g.open();
    CHECK(sync_wait(handle) == 6);
  }

  TEST_CASE("when_any: what is withdrawn goes on on the executor it left") {
    endless work;
    loop home;
    gate g;
    bool at_home = false;
    auto notes = [&]() -> task<int> {
      try {
        co_await work.scope.join();
      } catch (const operation_cancelled&) {
        at_home = home.here();
        throw;
      }
      co_return 0;
    };
    any_result<std::variant<int, int>> got{9, {}};
    const foreign f = any_in_foreign(got, schedule_on(home, notes()), wait_then_give(g, 3));
    home.run();
    g.open();
    CHECK_FALSE(at_home);
    CHECK(home.pending() == 1);
    home.run();
    CHECK(at_home);
    f.wait();
    CHECK(got.index == 1);
  }

  TEST_CASE("when_any: the error of the first one is thrown, and the others are stopped") {
    endless work;
    gate g;
    g.open();
    CHECK_THROWS_WITH(sync_wait(when_any(join(work.scope), wait_then_throw(g, "first"))), "first");
  }

  TEST_CASE("when_any: an error that a stop sets off loses against the value before it") {
    endless work;
    const auto got = sync_wait(when_any(join_then_throw(work.scope, "after"), number(1)));
    CHECK(got.index == 1);
  }

  TEST_CASE("when_any: a cancellation leaves it to the error of another one") {
    gate now;
    gate later;
    any_result<std::variant<int, int>> got{9, {}};
    const foreign f =
        any_in_foreign(got, wait_then_cancel(now), wait_then_throw(later, "the cause"));
    now.open();
    later.open();
    CHECK_THROWS_WITH(f.rethrow(), "the cause");
  }

  TEST_CASE("when_any: a cancellation leaves it to the value of another one") {
    gate now;
    gate later;
    any_result<std::variant<int, int>> got{9, {}};
    const foreign f = any_in_foreign(got, wait_then_cancel(now), wait_then_give(later, 4));
    now.open();
    later.open();
    CHECK_NOTHROW(f.rethrow());
    CHECK(got.index == 1);
    CHECK(std::get<1>(got.value) == 4);
  }

  TEST_CASE("when_any: cancellations alone are thrown") {
    gate g;
    g.open();
    CHECK_THROWS_AS(sync_wait(when_any(wait_then_cancel(g), wait_then_cancel(g))),
                    operation_cancelled);
  }

  TEST_CASE("when_any: deadline_exceeded is an error like any other") {
    gate now;
    gate later;
    auto late = [&]() -> task<int> {
      co_await later;
      throw deadline_exceeded();
    };
    any_result<std::variant<int, int>> got{9, {}};
    const foreign f = any_in_foreign(got, wait_then_cancel(now), late());
    now.open();
    later.open();
    CHECK_THROWS_AS(f.rethrow(), deadline_exceeded);
  }

  TEST_CASE("when_any: its children's token says when the first one has ended") {
    gate g;
    std::stop_token token;
    auto looks = [&]() -> task<int> {
      token = co_await current_stop_token();
      co_await g;
      co_return 1;
    };
    gate second;
    any_result<std::variant<int, int>> got{9, {}};
    const foreign f = any_in_foreign(got, looks(), wait_then_give(second, 2));
    CHECK(token.stop_possible());
    CHECK_FALSE(token.stop_requested());
    second.open();
    CHECK(token.stop_requested());
    g.open();
    CHECK(f.done());
  }

  TEST_CASE("when_any: a child that starts late starts all the same, and waits for nothing") {
    endless work;
    bool started = false;
    auto late = [&]() -> task<int> {
      started = true;
      co_await work.scope.join();
      co_return 0;
    };
    CHECK(sync_wait(when_any(number(1), late())).index == 0);
    CHECK(started);
  }

  TEST_CASE("when_any: a join that need not wait is not refused") {
    async_scope idle;
    bool joined = false;
    auto joins = [&]() -> task<int> {
      co_await idle.join();
      joined = true;
      co_return 0;
    };
    static_cast<void>(sync_wait(when_any(number(1), joins())));
    CHECK(joined);
  }

  TEST_CASE("when_any: a stop goes inward through all that lies between") {
    endless work;
    auto deep = [&]() -> task<int> {
      auto [a, b] = co_await when_all(when_any(join(work.scope)), join(work.scope));
      co_return std::get<0>(a.value) + b;
    };
    const auto got = sync_wait(when_any(when_any(deep(), deep()), number(2)));
    CHECK(got.index == 1);
  }

  TEST_CASE("when_any: a stop of what is inside does not reach what surrounds it") {
    std::stop_token outer;
    auto whole = [&]() -> task<int> {
      outer = co_await current_stop_token();
      static_cast<void>(co_await when_any(number(1), number(2)));
      CHECK_FALSE(outer.stop_requested());
      co_return 3;
    };
    static_cast<void>(sync_wait(when_any(whole())));
    CHECK(outer.stop_requested());
  }

  TEST_CASE("when_any: results and errors are destroyed exactly once") {
    {
      auto value = [](int n) -> task<counted> { co_return counted(n); };
      auto whole = [&]() -> task<int> {
        const int a = std::get<0>((co_await when_any(value(1), value(2))).value).value;
        auto kept = co_await when_any(value(3));
        co_return a + std::get<0>(kept.value).value;
      };
      CHECK(sync_wait(whole()) == 4);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("when_any: children on several threads end at the same time, again and again") {
    thread_pool pool{2};
    for (int round = 0; round != 500; ++round) {
      endless work;
      const auto got =
          sync_wait(when_any(schedule_on(pool, number(1)), schedule_on(pool, number(2)),
                             schedule_on(pool, join(work.scope))));
      CHECK(got.index != 2);
      CHECK(got.value.index() == got.index);
    }
  }

  TEST_CASE("when_any, when_all: awaiting a range twice, or one that was moved from, aborts") {
    const auto numbers = [](std::size_t n) {
      std::vector<task<int>> all;
      for (std::size_t i = 0; i != n; ++i) all.push_back(number(1));
      return all;
    };
    // Some compilers move what is awaited.
    const auto check = [](auto make, const char* what) {
      support::check_dies([&] { support::await_twice(make()); }, what);
      support::check_dies([&] { support::await_moved_from(make()); }, what);
    };
    check([&] { return when_any(numbers(2)); }, "a when_any is");
    check([&] { return when_all(numbers(2)); }, "a when_all is");
    check([&] { return when_all(numbers(0)); }, "a when_all is");
  }

  TEST_CASE("when_any, when_all: awaiting some by name twice, or what was moved from, aborts") {
    // Each child is a task, of its own or made for it.
    const auto check = [](auto make) {
      support::check_dies([&] { support::await_twice(make()); }, "a task is awaited");
      support::check_dies([&] { support::await_moved_from(make()); }, "a task is awaited");
    };
    critical_section cs;
    check([] { return when_any(number(1), number(2)); });
    check([] { return when_all(number(1), number(2)); });
    check([&] { return when_any(cs.execute([] {}), number(2)); });
    check([&] { return when_all(cs.execute([] {}), number(2)); });
  }
}
