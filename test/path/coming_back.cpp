// coming_back.cpp - the coroutine comes back on the executor it left, after the section was
// released.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;
using support::serve_here;

namespace {

// Notes where it is after each step, as seen from `home`.
task<> ask(critical_section& cs, loop& home, std::vector<bool>& at_home, execute_options how = {}) {
  co_await cs.execute([] {}, how);
  at_home.push_back(home.here());
}

using bools = std::vector<bool>;

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("coming back: without a wait, the coroutine just goes on") {
    loop home;
    critical_section cs;
    bools at_home;
    async_scope scope{{.executor = home}};
    scope.spawn(ask(cs, home, at_home));
    CHECK(home.run() == 1);
    CHECK(at_home == bools{true});
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: on the executor it left, whoever served it") {
    loop home;
    critical_section cs;
    bools at_home;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    for (int i = 0; i != 5; ++i) scope.spawn(ask(cs, home, at_home));
    home.run();
    CHECK(at_home.empty());
    std::thread([&] { busy.unlock(); }).join();
    CHECK(at_home.empty());
    home.run();
    CHECK(at_home == bools(5, true));
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: each to its own executor") {
    loop homes[3];
    critical_section cs;
    bools at_home;
    section_guard busy = support::hold(cs);
    async_scope scope;
    for (int i = 0; i != 9; ++i) {
      loop& home = homes[i % 3];
      scope.spawn(schedule_on(home, ask(cs, home, at_home)));
      home.run();
    }
    serve_here([&] { busy.unlock(); });
    CHECK(at_home.empty());
    for (loop& home : homes) home.run();
    CHECK(at_home == bools(9, true));
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: errors come back there too") {
    loop home;
    critical_section cs;
    bool caught_at_home = false;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& h, bool& there) -> task<> {
      try {
        co_await s.execute([] { throw std::runtime_error("x"); });
      } catch (const std::runtime_error&) {
        there = h.here();
      }
    }(cs, home, caught_at_home));
    home.run();
    busy.unlock();
    CHECK_FALSE(caught_at_home);
    home.run();
    CHECK(caught_at_home);
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: from a lock, on the executor it left") {
    loop home;
    critical_section cs;
    bool at_home = false;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& h, bool& there) -> task<> {
      const section_guard g = co_await s.lock();
      there = h.here();
    }(cs, home, at_home));
    home.run();
    busy.unlock();
    CHECK(cs.statistics().held);
    home.run();
    CHECK(at_home);
    CHECK_FALSE(cs.statistics().held);
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: refusals are thrown without a hop") {
    loop home;
    loop other;
    critical_section cs;
    sync_wait(cs.close());
    bool refused_at_home = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& h, loop& to, bool& there) -> task<> {
      try {
        co_await s.execute([] {}, {.resume_on = to});
      } catch (const section_closed&) {
        there = h.here();
      }
    }(cs, home, other, refused_at_home));
    home.run();
    CHECK(refused_at_home);
    CHECK(other.pending() == 0);
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: re-entry is thrown without a hop") {
    loop home;
    loop other;
    critical_section cs;
    bool refused_at_home = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& h, loop& to, bool& there) -> task<> {
      const section_guard g = co_await s.lock();
      try {
        co_await s.execute([] {}, {.resume_on = to});
      } catch (const reentry_error&) {
        there = h.here();
      }
    }(cs, home, other, refused_at_home));
    home.run();
    CHECK(refused_at_home);
    sync_wait(scope.join());
  }

  TEST_CASE("resume_on: the coroutine comes back there, also when the section was idle") {
    loop home;
    loop other;
    critical_section cs;
    bools at_other;
    async_scope scope{{.executor = home}};
    scope.spawn(ask(cs, other, at_other, {.resume_on = other}));
    home.run();
    CHECK(at_other.empty());
    CHECK(cs.statistics().executions == 1);
    CHECK_FALSE(cs.statistics().held);
    other.run();
    CHECK(at_other == bools{true});
    sync_wait(scope.join());
  }

  TEST_CASE("resume_on: the coroutine comes back there through the queue, with value or error") {
    loop home;
    loop other;
    critical_section cs;
    bools at_other;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    scope.spawn(ask(cs, other, at_other, {.resume_on = other}));
    scope.spawn([](critical_section& s, loop& to, bools& there) -> task<> {
      try {
        co_await s.execute([] { throw 1; }, {.resume_on = to});
      } catch (int) {
        there.push_back(to.here());
      }
    }(cs, other, at_other));
    home.run();
    busy.unlock();
    home.run();
    CHECK(at_other.empty());
    other.run();
    CHECK(at_other == bools{true, true});
    sync_wait(scope.join());
  }

  TEST_CASE("resume_on: from a foreign thread, for execute and lock, idle or not") {
    loop other;
    critical_section cs;
    bools at_other;
    const auto execute = [](critical_section& s, loop& to, bools& there) -> foreign {
      co_await s.execute([] {}, {.resume_on = to});
      there.push_back(to.here());
    };
    const auto lock = [](critical_section& s, loop& to, bools& there) -> foreign {
      const section_guard g = co_await s.lock({.resume_on = to});
      there.push_back(to.here());
    };
    std::vector<foreign> all;
    all.push_back(execute(cs, other, at_other));
    other.run();
    all.push_back(lock(cs, other, at_other));
    other.run();
    section_guard busy = support::hold(cs);
    all.push_back(execute(cs, other, at_other));
    all.push_back(lock(cs, other, at_other));
    busy.unlock();
    CHECK(at_other.size() == 2);
    other.run();
    CHECK(at_other == bools(4, true));
  }

  TEST_CASE("resume_on: the executor the coroutine is on already costs no hop") {
    loop home;
    critical_section cs;
    bools at_home;
    async_scope scope{{.executor = home}};
    scope.spawn(ask(cs, home, at_home, {.resume_on = home}));
    CHECK(home.run_one());
    CHECK(at_home == bools{true});
    sync_wait(scope.join());
  }

  TEST_CASE("coming back: on a pool, always on one of its threads") {
    thread_pool pool{2};
    critical_section cs;
    std::atomic<int> elsewhere{0};
    const std::thread::id outside = std::this_thread::get_id();
    async_scope scope{{.executor = pool}};
    section_guard busy = support::hold(cs);
    for (int i = 0; i != 20; ++i) {
      scope.spawn([](critical_section& s, std::thread::id out, std::atomic<int>& n) -> task<> {
        for (int k = 0; k != 50; ++k) {
          co_await s.execute([] {});
          if (std::this_thread::get_id() == out) ++n;
        }
      }(cs, outside, elsewhere));
    }
    support::wait_for_waiters(cs, 20);
    busy.unlock();
    sync_wait(scope.join());
    CHECK(elsewhere == 0);
  }

  TEST_CASE("release: the section is free when its awaiter resumes") {
    critical_section cs;
    bools held;
    const auto look = [](critical_section& s, bools& seen) -> foreign {
      co_await s.execute([] {});
      seen.push_back(s.statistics().held);
      seen.push_back(!s.try_execute([] {}));
    };
    const foreign idle = look(cs, held);
    section_guard busy = support::hold(cs);
    const foreign queued = look(cs, held);
    busy.unlock();
    CHECK(held == bools{false, false, false, false});
  }

  TEST_CASE("release: the section is free when the awaiter of an awaitable body resumes") {
    critical_section cs;
    gate g;
    bool held = true;
    const foreign f = [](critical_section& s, gate& at, bool& seen) -> foreign {
      auto body = [&at]() -> task<> { co_await at; };
      co_await s.execute(body);
      seen = s.statistics().held;
    }(cs, g, held);
    g.open();
    CHECK_FALSE(held);
  }

  TEST_CASE("release: the awaiter of the last execution may destroy the section") {
    thread_pool pool{2};
    for (int round = 0; round != 1000; ++round) {
      sync_wait([](thread_pool& p) -> task<> {
        auto cs = std::make_unique<critical_section>();
        auto enter = [](critical_section& s) -> task<> { co_await s.execute([] {}); };
        co_await when_all(schedule_on(p, enter(*cs)), schedule_on(p, enter(*cs)), enter(*cs));
        co_await cs->execute([] {});
        cs.reset();
      }(pool));
    }
  }
}
