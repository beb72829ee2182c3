// when_all.cpp - several awaitables at once.

#include "support/counted.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <doctest/doctest.h>
#include <latch>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;

namespace {

task<int> number(int n) { co_return n; }

task<> nothing() { co_return; }

task<> wait_then_throw(gate& g, const char* text) {
  co_await g;
  throw std::runtime_error(text);
}

task<int> wait_then_give(gate& g, int n) {
  co_await g;
  co_return n;
}

foreign keep(std::vector<task<int>> tasks, std::vector<int>& out) {
  out = co_await when_all(std::move(tasks));
}

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("when_all: gives a tuple of the results, monostate for void") {
    auto whole = []() -> task<std::tuple<int, std::monostate, std::string>> {
      co_return co_await when_all(number(1), nothing(),
                                  []() -> task<std::string> { co_return "s"; }());
    };
    CHECK(sync_wait(whole()) == std::tuple(1, std::monostate{}, std::string("s")));
    static_assert(std::is_same_v<decltype(sync_wait(when_all(number(1), nothing()))),
                                 std::tuple<int, std::monostate>>);
  }

  TEST_CASE("when_all: move-only results and references") {
    int x = 0;
    auto unique = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); };
    auto reference = [&]() -> task<int&> { co_return x; };
    auto got = sync_wait(when_all(unique(), reference()));
    static_assert(std::is_same_v<decltype(got), std::tuple<std::unique_ptr<int>, int&>>);
    CHECK(*std::get<0>(got) == 4);
    CHECK(&std::get<1>(got) == &x);
  }

  TEST_CASE("when_all: of nothing is ready at once") {
    CHECK(sync_wait(when_all()) == std::tuple<>{});
    CHECK(sync_wait(when_all(std::vector<task<int>>{})).empty());
    sync_wait(when_all(std::vector<task<>>{}));
  }

  TEST_CASE("when_all: a range gives a vector in the order of the range") {
    std::vector<task<int>> tasks;
    for (int i = 0; i != 50; ++i) tasks.push_back(number(i));
    const std::vector<int> got = sync_wait(when_all(std::move(tasks)));
    REQUIRE(got.size() == 50);
    for (int i = 0; i != 50; ++i) CHECK(got[static_cast<std::size_t>(i)] == i);
  }

  TEST_CASE("when_all: elements that a range only shows stay there if they can be copied") {
    stream s;
    s.enqueue([] {});
    std::vector<event> events{s.record(), s.record()};
    sync_wait(when_all(std::span(events)));
    sync_wait(when_any(std::span(events)));
    for (const event& e : events) CHECK(e.ready());
    struct counts {
      bool await_ready() const noexcept { return true; }
      void await_suspend(std::coroutine_handle<>) const noexcept {}
      int await_resume() const { return *n; }
      std::shared_ptr<int> n;
    };
    std::vector<counts> all(2, {std::make_shared<int>(3)});
    CHECK(sync_wait(when_all(std::span(all))) == std::vector{3, 3});
    CHECK(sync_wait(when_any(std::span(all))).value == 3);
    for (const counts& c : all) CHECK(c.n != nullptr);
    std::vector<task<int>> tasks;
    tasks.push_back(number(1));
    CHECK(sync_wait(when_all(std::span(tasks))) == std::vector{1});
  }

  TEST_CASE("when_all: what a range has with it lasts as long as its children") {
    const auto twice = [](std::unique_ptr<int>& n) -> task<int> { co_return 2 * *n; };
    const auto numbers = [] {
      std::vector<std::unique_ptr<int>> all;
      for (int i = 0; i != 3; ++i) all.push_back(std::make_unique<int>(i));
      return all;
    };
    auto whole = when_all(numbers() | std::views::transform(twice));
    CHECK(sync_wait(std::move(whole)) == std::vector{0, 2, 4});
    CHECK(sync_wait(when_any(numbers() | std::views::transform(twice))).value == 0);
    const auto with_state = [] {
      const std::vector<int> ids{1, 2};
      return when_all(std::views::all(std::vector<int>(ids)) |
                      std::views::transform([p = std::make_shared<int>(10)](int i) -> task<int> {
                        co_await yield();
                        co_return i + *p;
                      }));
    };
    thread_pool pool{1};
    CHECK(sync_wait(schedule_on(pool, with_state())) == std::vector{11, 12});
  }

  TEST_CASE("when_all: a range of void gives nothing") {
    std::vector<task<>> tasks;
    int n = 0;
    for (int i = 0; i != 5; ++i) {
      tasks.push_back([](int& count) -> task<> {
        ++count;
        co_return;
      }(n));
    }
    static_assert(std::is_void_v<decltype(sync_wait(when_all(std::vector<task<>>{})))>);
    sync_wait(when_all(std::move(tasks)));
    CHECK(n == 5);
  }

  TEST_CASE("when_all: children all start before one of them ends") {
    gate first;
    gate second;
    std::vector<task<int>> tasks;
    tasks.push_back(wait_then_give(first, 1));
    tasks.push_back(wait_then_give(second, 2));
    std::vector<int> got;
    const foreign f = keep(std::move(tasks), got);
    CHECK(first.waiting() == 1);
    CHECK(second.waiting() == 1);
    second.open();
    CHECK(got.empty());
    first.open();
    CHECK(got == std::vector<int>{1, 2});
  }

  TEST_CASE("when_all: throws the error that happened first, after all have ended") {
    gate first;
    gate second;
    gate third;
    bool over = false;
    const foreign f = support::await_in_foreign(
        when_all(wait_then_throw(first, "first child"), wait_then_throw(second, "second child"),
                 wait_then_give(third, 1)),
        over);
    second.open();
    CHECK_FALSE(f.done());
    first.open();
    CHECK_FALSE(f.done());
    third.open();
    CHECK(f.done());
    CHECK_FALSE(over);
    CHECK_THROWS_WITH(f.rethrow(), "second child");
  }

  TEST_CASE("when_all: a range throws the error that happened first, too") {
    gate gates[3];
    std::vector<task<>> tasks;
    tasks.push_back(wait_then_throw(gates[0], "0"));
    tasks.push_back(wait_then_throw(gates[1], "1"));
    tasks.push_back(wait_then_throw(gates[2], "2"));
    bool over = false;
    const foreign f = support::await_in_foreign(when_all(std::move(tasks)), over);
    gates[2].open();
    gates[0].open();
    CHECK_FALSE(f.done());
    gates[1].open();
    CHECK_THROWS_WITH(f.rethrow(), "2");
  }

  TEST_CASE("when_all: results are destroyed exactly once, also beside an error") {
    {
      auto make = []() -> task<counted> { co_return counted(1); };
      auto fail = []() -> task<counted> {
        throw std::runtime_error("x");
        co_return counted(0);
      };
      CHECK(std::get<1>(sync_wait(when_all(make(), make()))).value == 1);
      CHECK_THROWS(sync_wait(when_all(make(), fail(), make())));
      {
        auto never = when_all(make(), make());
      }
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("when_all: executions, locks and handles are awaitables like any other") {
    critical_section cs;
    auto h = cs.submit([] { return 1; });
    auto whole = [&]() -> task<int> {
      auto [a, b, c] = co_await when_all(h, cs.execute([] { return 2; }), number(3));
      co_return a + b + c;
    };
    CHECK(sync_wait(whole()) == 6);
    std::vector<execution_handle<int>> handles;
    for (int i = 0; i != 10; ++i) handles.push_back(cs.submit([i] { return i; }));
    CHECK(sync_wait(when_all(std::move(handles))).back() == 9);
  }

  TEST_CASE("when_all: its children run at the same time on a pool") {
    thread_pool pool{2};
    std::latch both{2};
    auto meet = [](std::latch& l) -> task<> {
      l.arrive_and_wait();
      co_return;
    };
    sync_wait(when_all(schedule_on(pool, meet(both)), schedule_on(pool, meet(both))));
    CHECK(both.try_wait());
  }

  TEST_CASE("when_all: many children that end on several threads") {
    thread_pool pool{3};
    for (int round = 0; round != 50; ++round) {
      std::vector<task<int>> tasks;
      for (int i = 0; i != 40; ++i) {
        tasks.push_back([](thread_pool& p, int n) -> task<int> {
          co_return co_await schedule_on(p, number(n));
        }(pool, i));
      }
      long sum = 0;
      for (const int n : sync_wait(when_all(std::move(tasks)))) sum += n;
      CHECK(sum == 780);
    }
  }

  TEST_CASE("when_all: an error proper counts, though a cancellation happened before it") {
    gate now;
    gate later;
    auto cancelled = [&]() -> task<> {
      co_await now;
      throw operation_cancelled();
    };
    const foreign f = [](task<> a, task<> b) -> foreign {
      co_await when_all(std::move(a), std::move(b));
    }(cancelled(), wait_then_throw(later, "the cause"));
    now.open();
    later.open();
    CHECK_THROWS_WITH(f.rethrow(), "the cause");
  }

  TEST_CASE("when_all: a cancellation is thrown if there is nothing else") {
    auto cancelled = []() -> task<> {
      throw operation_cancelled();
      co_return;
    };
    CHECK_THROWS_AS(sync_wait(when_all(cancelled(), nothing())), operation_cancelled);
  }
}
