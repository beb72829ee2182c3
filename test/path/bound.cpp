// bound.cpp - sections with an executor: bodies run only there.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

section_options on(loop& l) { return {.name = "bound", .executor = l}; }

task<> ask(critical_section& cs, loop& bound, loop& home, std::vector<bool>& right_place) {
  const bool inside = co_await cs.execute([&bound] { return bound.here(); });
  right_place.push_back(inside);
  right_place.push_back(home.here());
}

using bools = std::vector<bool>;

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("bound: the body runs there, and the caller resumes where it was") {
    loop home;
    loop bound;
    critical_section cs{on(bound)};
    bools right_place;
    async_scope scope{{.executor = home}};
    scope.spawn(ask(cs, bound, home, right_place));
    home.run();
    CHECK(cs.statistics().held);
    CHECK(cs.statistics().executions == 0);
    CHECK(home.pending() == 0);
    bound.run();
    CHECK(right_place.empty());
    CHECK(cs.statistics().executions == 1);
    CHECK(home.run() == 1);
    CHECK(right_place == bools{true, true});
    sync_wait(scope.join());
  }

  TEST_CASE("bound: many callers, one after the other on the section's executor") {
    loop home;
    loop bound;
    critical_section cs{on(bound)};
    bools right_place;
    async_scope scope{{.executor = home}};
    for (int i = 0; i != 100; ++i) scope.spawn(ask(cs, bound, home, right_place));
    home.run();
    bound.run();
    home.run();
    CHECK(right_place == bools(200, true));
    CHECK(cs.statistics().executions == 100);
    sync_wait(scope.join());
  }

  TEST_CASE("bound: a caller on that executor runs its body at once") {
    loop bound;
    critical_section cs{on(bound)};
    bools right_place;
    async_scope scope{{.executor = bound}};
    scope.spawn(ask(cs, bound, bound, right_place));
    CHECK(bound.run_one());
    CHECK(right_place == bools{true, true});
    sync_wait(scope.join());
  }

  TEST_CASE("bound: a foreign caller without an executor goes on where the body ran") {
    loop bound;
    critical_section cs{on(bound)};
    bools right_place;
    const foreign f = [](critical_section& s, loop& l, bools& seen) -> foreign {
      const bool inside = co_await s.execute([&l] { return l.here(); });
      seen.push_back(inside);
    }(cs, bound, right_place);
    CHECK(right_place.empty());
    bound.run();
    CHECK(right_place == bools{true});
  }

  TEST_CASE("bound: errors of bodies come home") {
    loop home;
    loop bound;
    critical_section cs{on(bound)};
    bool caught = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& h, bool& c) -> task<> {
      try {
        co_await s.execute([] { throw std::runtime_error("x"); });
      } catch (const std::runtime_error&) {
        c = h.here();
      }
    }(cs, home, caught));
    home.run();
    bound.run();
    home.run();
    CHECK(caught);
    sync_wait(scope.join());
  }

  TEST_CASE("bound: resume_on is where the caller resumes") {
    loop home;
    loop bound;
    loop other;
    critical_section cs{on(bound)};
    bool there = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& to, bool& t) -> task<> {
      co_await s.execute([] {}, {.resume_on = to});
      t = to.here();
    }(cs, other, there));
    home.run();
    bound.run();
    other.run();
    CHECK(there);
    sync_wait(scope.join());
  }

  TEST_CASE("bound: awaitable bodies begin there") {
    loop bound;
    critical_section cs{on(bound)};
    gate g;
    bools there;
    auto body = [&]() -> task<> {
      there.push_back(bound.here());
      co_await g;
    };
    bool over = false;
    const foreign first = support::await_in_foreign(cs.execute(body), over);
    const foreign second = [](critical_section& s, loop& l, bools& seen) -> foreign {
      co_await s.execute([&] { seen.push_back(l.here()); });
    }(cs, bound, there);
    CHECK(there.empty());
    bound.run();
    CHECK(there == bools{true});
    g.open();
    CHECK(there == bools{true});
    bound.run();
    CHECK(there == bools{true, true});
    CHECK(over);
  }

  TEST_CASE("bound: an idle section locks at once, and the holder stays where it is") {
    loop bound;
    critical_section cs{on(bound)};
    const section_guard g = sync_wait(cs.lock());
    CHECK(g.owns_lock());
    CHECK(bound.pending() == 0);
  }

  TEST_CASE("bound: a lock that waited resumes its awaiter where the awaiter was") {
    loop home;
    loop bound;
    critical_section cs{on(bound)};
    section_guard busy = sync_wait(cs.lock());
    busy.detach();
    bool at_home = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& h, bool& t) -> task<> {
      const section_guard g = co_await s.lock();
      t = h.here();
    }(cs, home, at_home));
    home.run();
    busy.unlock();
    bound.run();
    home.run();
    CHECK(at_home);
    CHECK_FALSE(cs.statistics().held);
    sync_wait(scope.join());
  }

  TEST_CASE("bound: a guard unlocked elsewhere leaves the waiting bodies to the executor") {
    loop bound;
    critical_section cs{on(bound)};
    section_guard busy = sync_wait(cs.lock());
    busy.detach();
    bools there;
    const foreign f = [](critical_section& s, loop& l, bools& seen) -> foreign {
      co_await s.execute([&] { seen.push_back(l.here()); });
    }(cs, bound, there);
    busy.unlock();
    CHECK(there.empty());
    bound.run();
    CHECK(there == bools{true});
  }

  TEST_CASE("bound: try_execute and try_lock are accepted only there") {
    loop bound;
    critical_section cs{on(bound)};
    CHECK_FALSE(cs.try_execute([] {}));
    CHECK_FALSE(cs.try_lock().has_value());
    bool tried = false;
    bool locked = false;
    async_scope scope{{.executor = bound}};
    scope.spawn([](critical_section& s, bool& t, bool& l) -> task<> {
      t = s.try_execute([] {});
      l = s.try_lock().has_value();
      co_return;
    }(cs, tried, locked));
    bound.run();
    CHECK(tried);
    CHECK(locked);
    sync_wait(scope.join());
  }

  TEST_CASE("bound: to a pool, bodies run on its threads only, for callers from everywhere") {
    thread_pool pool{1};
    critical_section cs{section_options{.executor = pool}};
    const std::thread::id worker = sync_wait(schedule_on(
        pool, []() -> task<std::thread::id> { co_return std::this_thread::get_id(); }()));
    int elsewhere = 0;
    auto enter = [](critical_section& s, std::thread::id right, int& wrong) -> task<> {
      for (int i = 0; i != 200; ++i) {
        co_await s.execute([&] { wrong += std::this_thread::get_id() == right ? 0 : 1; });
      }
    };
    {
      std::vector<std::jthread> all;
      for (int t = 0; t != 3; ++t) {
        all.emplace_back([&] { sync_wait(enter(cs, worker, elsewhere)); });
      }
    }
    CHECK(elsewhere == 0);
    CHECK(cs.statistics().executions == 600);
  }
}
