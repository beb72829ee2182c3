// yield.cpp - letting others run, and running something elsewhere.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/loop.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using support::counted;
using support::loop;

namespace {

task<> take_turns(std::vector<int>& list, int id) {
  for (int i = 0; i != 3; ++i) {
    list.push_back(id);
    co_await yield();
  }
}

task<bool> is_here(loop& l) { co_return l.here(); }

// Begins to await `a` on `l`, and ends the coroutine once `so_far` has run.
template <class A, class F>
void destroy_amid(loop& l, A a, F so_far) {
  bool over = false;
  support::run_on(l, [&] {
    const support::foreign waits = support::await_in_foreign(std::move(a), over);
    so_far();
  });
}

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("yield: goes to the end of the executor's queue") {
    loop l;
    std::vector<int> list;
    async_scope scope{{.executor = l}};
    scope.spawn(take_turns(list, 1));
    scope.spawn(take_turns(list, 2));
    l.run();
    sync_wait(scope.join());
    CHECK(list == std::vector<int>{1, 2, 1, 2, 1, 2});
  }

  TEST_CASE("yield: without an executor goes on at once") {
    std::vector<int> list;
    sync_wait(take_turns(list, 1));
    CHECK(list == std::vector<int>{1, 1, 1});
  }

  TEST_CASE("yield: many in a row do not grow the stack") {
    loop l;
    support::stack_meter m;
    async_scope scope{{.executor = l}};
    scope.spawn([](support::stack_meter& meter) -> task<> {
      for (int i = 0; i != 100000; ++i) {
        co_await yield();
        meter.look();
      }
    }(m));
    l.run();
    sync_wait(scope.join());
    CHECK(m.used() < 64 * 1024);
  }

  TEST_CASE("schedule_on: runs there, and goes on where it was awaited from") {
    loop home;
    loop away;
    std::vector<bool> seen;
    async_scope scope{{.executor = home}};
    scope.spawn([](loop& h, loop& a, std::vector<bool>& s) -> task<> {
      s.push_back(co_await schedule_on(a, is_here(a)));
      s.push_back(h.here());
    }(home, away, seen));
    home.run();
    CHECK(seen.empty());
    CHECK(away.run() == 1);
    CHECK(home.run() == 1);
    CHECK(seen == std::vector<bool>{true, true});
    sync_wait(scope.join());
  }

  TEST_CASE("schedule_on: to the executor it runs on already") {
    loop home;
    bool here = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](loop& h, bool& out) -> task<> { out = co_await schedule_on(h, is_here(h)); }(
                                           home, here));
    home.run();
    sync_wait(scope.join());
    CHECK(here);
  }

  TEST_CASE("schedule_on: results of every kind, and errors, come back") {
    thread_pool pool{1};
    int x = 0;
    auto reference = [&]() -> task<int&> { co_return x; };
    auto unique = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(3); };
    auto failing = []() -> task<> {
      throw std::runtime_error("there");
      co_return;
    };
    CHECK(&sync_wait(schedule_on(pool, reference())) == &x);
    CHECK(*sync_wait(schedule_on(pool, unique())) == 3);
    CHECK_THROWS_WITH(sync_wait(schedule_on(pool, failing())), "there");
  }

  TEST_CASE("schedule_on: nothing runs before it is awaited, and it may be moved until then") {
    loop l;
    {
      auto first = schedule_on(l, [](counted c) -> task<counted> { co_return c; }(counted(2)));
      auto second = std::move(first);
      CHECK(l.pending() == 0);
    }
    CHECK(counted::alive() == 0);
    thread_pool pool{1};
    {
      auto first = schedule_on(pool, [](counted c) -> task<counted> { co_return c; }(counted(2)));
      auto second = std::move(first);
      CHECK(sync_wait(std::move(second)).value == 2);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("schedule_on: refers to an awaitable given as an lvalue") {
    thread_pool pool{1};
    support::gate g;
    g.open();
    sync_wait(schedule_on(pool, g));
    CHECK(g.waiting() == 0);
  }

  TEST_CASE("yield and schedule_on: awaiting one twice, or one that was moved from, aborts") {
    const char* const misused_yield = "a yield is";
    const char* const misused = "a schedule_on is";
    const auto on_loop = [](auto use) {
      loop l;
      std::optional<support::foreign> f;
      support::run_on(l, [&] { f.emplace(use(schedule_on(l, is_here(l)))); });
      l.run();
    };
    support::check_dies([] { support::await_twice(yield()); }, misused_yield);
    support::check_dies([] { support::await_moved_from(yield()); }, misused_yield);
    support::check_dies([&] { on_loop([](auto a) { return support::await_twice(std::move(a)); }); },
                        misused);
    support::check_dies(
        [&] { on_loop([](auto a) { return support::await_moved_from(std::move(a)); }); }, misused);
  }

  TEST_CASE("schedule_on: nowhere is refused at once") {
    CHECK_THROWS_AS(static_cast<void>(schedule_on(executor_ref(), yield())), std::invalid_argument);
  }

  TEST_CASE("yield and schedule_on: destroying a coroutine that is in a queue aborts") {
    const char* const queued = "in a queue";
    support::check_dies(
        [] {
          loop l;
          destroy_amid(l, yield(), [] {});
        },
        queued);
    support::check_dies(
        [] {
          loop l;
          loop away;
          destroy_amid(l, schedule_on(away, is_here(away)), [] {});
        },
        queued);
    support::check_dies(
        [] {
          loop l;
          loop away;
          destroy_amid(l, schedule_on(away, is_here(away)), [&] { away.run(); });
        },
        queued);
  }

  TEST_CASE("schedule_on: destroyed while it waits for something foreign, it takes that with it") {
    loop l;
    loop away;
    support::gate g;
    const auto wait = [](support::gate& at, counted) -> task<> { co_await at; };
    auto waits = wait(g, counted(1));
    destroy_amid(l, schedule_on(away, std::move(waits)), [&] {
      away.run();
      CHECK(counted::alive() == 1);
    });
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("schedule_on: destroyed while it waits, it gives back its share of what is held") {
    loop away;
    support::gate g;
    critical_section cs;
    const auto wait = [](support::gate& at) -> task<> { co_await at; };
    const auto holds = [&]() -> task<> {
      section_guard guard = co_await cs.lock();
      co_await schedule_on(away, wait(g));
    };
    bool over = false;
    {
      const support::foreign f = support::await_in_foreign(holds(), over);
      away.run();
      CHECK(cs.statistics().held);
    }
    CHECK_FALSE(over);
    CHECK_FALSE(cs.statistics().held);
  }
}
