// when_any.cpp - what chains are below a when_any or in a scope that is stopped: waits that need
// not end, re-entry all the same, and guards that come out of it.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <optional>
#include <string>
#include <utility>
#include <variant>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

task<> wait_for(gate& g) { co_await g; }

task<> enter(critical_section& cs, int& n) {
  co_await cs.execute([&n] { ++n; });
}

// Holds `mine` at the gate, and then waits for `wanted`.
task<> hold_then_enter(critical_section& mine, gate& g, critical_section& wanted, int& n) {
  auto body = [&]() -> task<> {
    co_await g;
    co_await enter(wanted, n);
  };
  co_await mine.execute(body);
}

foreign run(task<> t) { co_await std::move(t); }

// Two chains, each with a section; the first one waits, below a when_any, for what runs in the
// second's.
struct crossed {
  task<> first_chain() {
    auto waits = [this]() -> task<> {
      auto handle = b.submit([] {});
      co_await handle;
    };
    auto body = [this, &waits]() -> task<> {
      co_await before;
      static_cast<void>(co_await when_any(waits(), wait_for(end)));
    };
    co_await a.execute(body);
  }

  critical_section a{"a"};
  critical_section b{"b"};
  gate before;
  gate end;
  gate second;
  int n = 0;
};

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("when_any: a wait below it closes no circle, whichever wait comes last") {
    for (const bool any_is_last : {false, true}) {
      crossed c;
      const foreign one = run(c.first_chain());
      const foreign two = run(hold_then_enter(c.b, c.second, c.a, c.n));
      (any_is_last ? c.second : c.before).open();
      (any_is_last ? c.before : c.second).open();
      CHECK_FALSE(one.done());
      CHECK_FALSE(two.done());
      c.end.open();
      one.wait();
      two.wait();
      CHECK_NOTHROW(one.rethrow());
      CHECK_NOTHROW(two.rethrow());
      CHECK(c.n == 1);
      sync_wait(c.a.close());
      sync_wait(c.b.close());
    }
  }

  TEST_CASE("when_any: re-entry is reported in the branch that asks, and decides") {
    critical_section cs{"a"};
    int n = 0;
    auto body = [&]() -> task<> { static_cast<void>(co_await when_any(enter(cs, n))); };
    CHECK_THROWS_AS(sync_wait(cs.execute(body)), reentry_error);
    auto through = [&]() -> task<> {
      const section_guard g = co_await cs.lock();
      static_cast<void>(co_await when_any(when_all(enter(cs, n))));
    };
    CHECK_THROWS_AS(sync_wait(through()), reentry_error);
    sync_wait(enter(cs, n));
    CHECK(n == 1);
  }

  TEST_CASE("when_any: one branch is refused, and another one may decide before it") {
    critical_section cs{"a"};
    int n = 0;
    auto one = []() -> task<> { co_return; };
    auto body = [&]() -> task<> {
      const auto got = co_await when_any(one(), enter(cs, n));
      CHECK(got.index == 0);
    };
    CHECK_NOTHROW(sync_wait(cs.execute(body)));
    CHECK(n == 0);
  }

  TEST_CASE("when_any: a guard that a child returns is the parent's, whose waits count again") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate at_a;
    gate at_b;
    int n = 0;
    auto take = [](critical_section& s) -> task<section_guard> { co_return co_await s.lock(); };
    auto parent = [&]() -> task<> {
      auto got = co_await when_any(take(a));
      bool refused = false;
      try {
        co_await enter(a, n);
      } catch (const reentry_error&) {
        refused = true;
      }
      CHECK(refused);
      co_await at_a;
      co_await enter(b, n);
    };
    const foreign one = run(parent());
    const foreign two = run(hold_then_enter(b, at_b, a, n));
    at_a.open();
    at_b.open();
    two.wait();
    one.wait();
    CHECK_THROWS_AS(two.rethrow(), deadlock_error);
    CHECK_NOTHROW(one.rethrow());
    sync_wait(when_all(enter(a, n), enter(b, n)));
    CHECK(n == 3);
  }

  TEST_CASE("when_any: a guard that a child left behind without its result is the parent's too") {
    critical_section a{"a"};
    int n = 0;
    section_guard kept;
    auto take = [&]() -> task<> { kept = co_await a.lock(); };
    auto one = []() -> task<> { co_return; };
    auto parent = [&]() -> task<> {
      CHECK((co_await when_any(one(), take())).index == 0);
      if (kept) co_await enter(a, n);
    };
    try {
      sync_wait(parent());
      CHECK_FALSE(kept);
    } catch (const reentry_error&) {
      CHECK(kept.owns_lock());
      kept.unlock();
    }
    sync_wait(enter(a, n));
    CHECK(n == 1);
  }

  TEST_CASE("when_any: a foreign coroutine below it is stopped through its copy of the chain") {
    gate end;
    async_scope work;
    work.spawn(wait_for(end));
    bool withdrawn = false;
    auto joins = [&]() -> foreign {
      try {
        co_await work.join();
      } catch (const operation_cancelled&) {
        withdrawn = true;
      }
    };
    critical_section cs;
    gate g;
    auto child = [&]() -> task<> {
      const section_guard guard = co_await cs.lock();  // so there is a chain to be copied
      const foreign f = joins();
      co_await g;
      f.wait();
    };
    async_scope scope;
    scope.spawn(when_any(child()));
    CHECK_FALSE(withdrawn);
    scope.request_stop();
    g.open();
    sync_wait(scope.join());
    CHECK(withdrawn);
    end.open();
    sync_wait(work.join());
  }

  TEST_CASE("when_any: a foreign coroutine that outlives it is not stopped any more") {
    gate end;
    async_scope work;
    work.spawn(wait_for(end));
    critical_section cs;
    gate g;
    bool joined = false;
    auto joins = [&]() -> foreign {
      co_await g;
      co_await work.join();
      joined = true;
    };
    auto child = [&]() -> task<foreign> {
      const section_guard guard = co_await cs.lock();
      co_return joins();
    };
    auto got = sync_wait(when_any(child()));
    g.open();
    end.open();
    std::get<0>(got.value).wait();
    CHECK(joined);
    sync_wait(work.join());
  }

  TEST_CASE("when_any: the waits of a foreign coroutine that outlives it count again") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section door;
    loop home;
    gate at_a;
    section_guard key = support::hold(door);
    std::string refused;
    std::optional<foreign> outlives;
    const auto holds_a = [&]() -> foreign {
      const section_guard guard = co_await a.lock();
      try {
        co_await door.execute([] {});  // until the when_any has ended
      } catch (const operation_cancelled&) {
      }
      try {
        co_await yield();
        co_await door.execute([] {});
        co_await b.execute([] {});
      } catch (const deadlock_error& e) {
        refused = e.what();
      }
    };
    const auto child = [&]() -> task<> {
      outlives.emplace(holds_a());
      co_return;
    };
    const auto parent = [&]() -> task<> { co_await when_any(child()); };
    int n = 0;
    std::optional<foreign> all;
    std::optional<foreign> other;
    support::run_on(home, [&] { all.emplace(run(parent())); });
    REQUIRE(all->done());
    CHECK(door.statistics().waiters == 1);
    support::run_on(home, [&] { other.emplace(run(hold_then_enter(b, at_a, a, n))); });
    at_a.open();  // and waits for a
    key.unlock();
    home.run();
    REQUIRE(outlives->done());
    CHECK(refused.find("b") != std::string::npos);
    REQUIRE(other->done());
    CHECK(n == 1);
  }

  TEST_CASE(
      "scope: a wait that is withdrawn is no edge any more, though its chain has not gone on") {
    critical_section a{"a"};
    critical_section b{"b"};
    loop home;
    gate at_b;
    int n = 0;
    async_scope scope{{.executor = home}};
    const foreign two = run(hold_then_enter(b, at_b, a, n));
    auto work = [&]() -> task<> {
      auto body = [&]() -> task<> { co_await b.submit([] {}); };
      co_await a.execute(body);
    };
    scope.spawn(work());
    home.run();
    scope.request_stop();
    CHECK(home.pending() == 1);
    at_b.open();
    CHECK_FALSE(two.done());
    home.run();
    two.wait();
    CHECK_NOTHROW(two.rethrow());
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    sync_wait(b.close());
    CHECK(n == 1);
  }
}
