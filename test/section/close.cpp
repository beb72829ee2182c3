// close.cpp - closing runs what was accepted and refuses the rest.

#include "support/ending.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <stop_token>
#include <tuple>
#include <utility>
#include <vector>

using namespace turnstile;
using support::await_in_foreign;
using support::foreign;
using support::gate;
using support::loop;

namespace {

foreign close_it(critical_section& cs, bool& over) {
  co_await cs.close();
  over = true;
}

foreign run_in(critical_section& cs, int& runs) {
  co_await cs.execute([&runs] { ++runs; });
}

// Looks around whenever it is given a job.
struct watching : loop {
  void post(job& j) noexcept {
    look();
    loop::post(j);
  }
  std::function<void()> look = [] {};
};

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("close: an idle section closes at once, and twice is fine") {
    critical_section cs;
    sync_wait(cs.close());
    sync_wait(cs.close());
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("close: nothing is closed before it is awaited") {
    critical_section cs;
    {
      [[maybe_unused]] auto never = cs.close();
    }
    CHECK(sync_wait(cs.execute([] { return 1; })) == 1);
  }

  TEST_CASE("close: refuses every kind of new request") {
    critical_section cs{"shut"};
    critical_section open;
    sync_wait(cs.close());
    bool asked = false;
    const auto asks = [&asked] { return asked = true; };
    CHECK_THROWS_AS(sync_wait(cs.execute([] {})), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.execute([]() -> task<> { co_return; })), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.execute(after(open.submit([] {})), [] {})), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.execute_when(asks, [] {})), section_closed);
    CHECK_THROWS_AS(cs.execute_blocking([] {}), section_closed);
    CHECK_THROWS_AS(sync_wait(execute(std::tie(open, cs), [] {})), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.lock()), section_closed);
    CHECK_THROWS_AS(cs.post([] {}), section_closed);
    CHECK_THROWS_AS(cs.try_lock(), section_closed);
    CHECK_THROWS_AS(cs.try_execute([] {}), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.submit([] {})), section_closed);
    CHECK(cs.statistics().refused == 11);
    CHECK_FALSE(asked);
    CHECK(cs.statistics().executions == 0);
  }

  TEST_CASE("close: the error names the section") {
    critical_section cs{"accounts"};
    sync_wait(cs.close());
    try {
      sync_wait(cs.execute([] {}));
      FAIL("not refused");
    } catch (const section_closed& e) {
      CHECK(std::string(e.what()).find("accounts") != std::string::npos);
    }
  }

  TEST_CASE("close: waits for what was accepted, and refuses from the await on") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    int runs = 0;
    std::vector<foreign> accepted;
    for (int i = 0; i != 20; ++i) accepted.push_back(run_in(cs, runs));
    bool closed = false;
    const foreign closer = close_it(cs, closed);
    const foreign late = run_in(cs, runs);
    CHECK_THROWS_AS(late.rethrow(), section_closed);
    CHECK_FALSE(closed);
    CHECK(cs.statistics().waiters == 21);  // with the close itself
    CHECK(cs.statistics().most_waiters == 21);
    support::serve_here([&] { busy.unlock(); });
    CHECK(closed);
    CHECK(runs == 20);
    CHECK(cs.statistics().executions == 21);
    CHECK(cs.statistics().refused == 1);
  }

  TEST_CASE("close: waits for a guard that is unlocked later, and refuses try_lock meanwhile") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    bool closed = false;
    const foreign closer = close_it(cs, closed);
    CHECK_FALSE(closed);
    CHECK_THROWS_AS(cs.try_lock(), section_closed);
    CHECK_THROWS_AS(cs.try_execute([] {}), section_closed);
    busy.unlock();
    CHECK(closed);
  }

  TEST_CASE("close: waits for an awaitable body, and for locks queued behind it") {
    critical_section cs;
    gate g;
    bool over = false;
    auto body = [&]() -> task<> { co_await g; };
    const foreign first = await_in_foreign(cs.execute(body), over);
    section_guard guard;
    const foreign second = [](critical_section& s, section_guard& into) -> foreign {
      into = co_await s.lock();
    }(cs, guard);
    bool closed = false;
    const foreign closer = close_it(cs, closed);
    g.open();
    CHECK(over);
    CHECK(guard.owns_lock());
    CHECK_FALSE(closed);
    guard.unlock();
    CHECK(closed);
  }

  TEST_CASE("close: several wait for the same end") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    bool closed[3] = {};
    const foreign a = close_it(cs, closed[0]);
    const foreign b = close_it(cs, closed[1]);
    const foreign c = close_it(cs, closed[2]);
    CHECK_FALSE(closed[0]);
    CHECK_FALSE(closed[2]);
    busy.unlock();
    CHECK(closed[0]);
    CHECK(closed[1]);
    CHECK(closed[2]);
  }

  TEST_CASE("close: from inside a body it is refused, and the section stays open") {
    critical_section cs;
    auto body = [&]() -> task<> { co_await cs.close(); };
    CHECK_THROWS_AS(sync_wait(cs.execute(body)), reentry_error);
    CHECK(sync_wait(cs.execute([] { return 1; })) == 1);
  }

  TEST_CASE("close: from the chain that owns a guard it is refused") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    CHECK_THROWS_AS(sync_wait(cs.close()), reentry_error);
    g.unlock();
    sync_wait(cs.close());
  }

  TEST_CASE("close: the awaiter may destroy the section at once") {
    for (int round = 0; round != 100; ++round) {
      auto cs = std::make_unique<critical_section>();
      sync_wait([](std::unique_ptr<critical_section>& s) -> task<> {
        s->post([] {});
        co_await s->close();
        s.reset();
      }(cs));
      CHECK(cs == nullptr);
    }
  }

  TEST_CASE("close: when it is done, handles are ready and errors were reported") {
    const support::unobserved errors;
    watching home;
    critical_section cs;
    section_guard busy = support::hold(cs);
    auto handle = cs.submit([] {});
    cs.post([] { throw 1; });
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s) -> task<> { co_await s.close(); }(cs));
    home.run();
    bool ready = false;
    std::size_t reported = 0;
    home.look = [&] {
      ready = handle.ready();
      reported = errors.seen().size();
    };
    support::serve_here([&] { busy.unlock(); });
    CHECK(ready);
    CHECK(reported == 1);
    home.run();
    sync_wait(scope.join());
    sync_wait(std::move(handle));
  }

  TEST_CASE("close: resumes on the executor it left") {
    loop home;
    critical_section cs;
    section_guard busy = support::hold(cs);
    bool at_home = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& l, bool& there) -> task<> {
      co_await s.close();
      there = l.here();
    }(cs, home, at_home));
    home.run();
    busy.unlock();
    home.run();
    CHECK(at_home);
    sync_wait(scope.join());
  }

  TEST_CASE("close: a section bound to an executor runs there what was accepted, then closes") {
    loop l;
    critical_section cs{section_options{.executor = l}};
    int runs = 0;
    cs.post([&] { runs += l.here() ? 1 : 0; });
    cs.post([&] { runs += l.here() ? 1 : 0; });
    bool closed = false;
    const foreign closer = close_it(cs, closed);
    CHECK_FALSE(closed);
    l.run();
    CHECK(closed);
    CHECK(runs == 2);
  }

  TEST_CASE("close: an idle section bound to an executor closes too") {
    loop l;
    critical_section cs{section_options{.executor = l}};
    bool closed = false;
    const foreign closer = close_it(cs, closed);
    l.run();
    CHECK(closed);
  }

  TEST_CASE("close: waits for no executor that has no body to run") {
    loop nobodys;
    loop home;
    critical_section cs{section_options{.executor = nobodys}};
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    bool closed = false;
    SUBCASE("behind a guard") {
      section_guard guard = sync_wait(cs.lock());
      guard.detach();
      const foreign closer = close_it(cs, closed);
      CHECK_FALSE(closed);
      guard.unlock();
      closer.wait();
    }
    SUBCASE("behind a request that is withdrawn") {
      support::ending withdrawn;
      async_scope scope{{.executor = home}};
      scope.spawn(withdrawn.of(cs.execute([] {}, {.stop = token})));
      home.run();
      const foreign closer = close_it(cs, closed);
      CHECK_FALSE(closed);
      stop.request_stop();
      closer.wait();
      home.run();
      sync_wait(scope.join());
      CHECK(withdrawn.how == "cancelled");
      nobodys.run();
    }
    CHECK(closed);
  }

  TEST_CASE("close: a wait for the end can be timed, and the section is closed all the same") {
    manual_clock clock;
    critical_section cs;
    loop here;
    async_scope scope{{.executor = here}};
    bool timed_out = false;
    bool over = false;
    const auto close_soon = [&]() -> task<> {
      try {
        co_await timeout(cs.close(), std::chrono::seconds(1));
      } catch (const deadline_exceeded&) {
        timed_out = true;
      }
      co_await cs.close();
      over = true;
    };
    section_guard guard = support::hold(cs);
    scope.spawn(close_soon());
    here.run();
    CHECK_THROWS_AS(cs.post([] {}), section_closed);
    clock.advance(std::chrono::seconds(1));
    here.run();
    CHECK(timed_out);
    CHECK_FALSE(over);
    guard.unlock();
    here.run();
    CHECK(over);
    sync_wait(scope.join());
  }

  TEST_CASE("close: whoever waits below a timeout that comes too late is resumed as any other") {
    manual_clock clock;
    critical_section cs;
    sync_wait(timeout(cs.close(), std::chrono::seconds(1)));
    sync_wait(timeout(cs.close(), std::chrono::seconds(1)));
    clock.advance(std::chrono::seconds(2));
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("close: below what is stopped already it closes all the same") {
    critical_section idle;
    critical_section busy;
    const section_guard held = support::hold(busy);
    loop here;
    async_scope scope{{.executor = here}};
    int cancelled = 0;
    const auto close_in_vain = [&](critical_section& cs) -> task<> {
      try {
        co_await cs.close();
      } catch (const operation_cancelled&) {
        ++cancelled;
      }
    };
    scope.request_stop();
    scope.spawn(close_in_vain(idle));
    scope.spawn(close_in_vain(busy));
    here.run();
    CHECK(cancelled == 2);
    CHECK_THROWS_AS(idle.post([] {}), section_closed);
    CHECK_THROWS_AS(busy.post([] {}), section_closed);
    sync_wait(scope.join());
  }

  TEST_CASE("close: below what is stopped already no wait of others is in the way") {
    critical_section a;
    critical_section b;
    loop here;
    async_scope scope{{.executor = here}};
    async_scope other{{.executor = here}};
    bool cancelled = false;
    gate a_is_held;
    other.spawn([](critical_section& x, critical_section& y, gate& g) -> task<> {
      const section_guard of_y = co_await y.lock();
      co_await g;
      co_await x.execute([] {});
    }(a, b, a_is_held));
    scope.request_stop();
    scope.spawn([](critical_section& x, critical_section& y, gate& g, bool& out) -> task<> {
      const auto of_x = x.try_lock();
      g.open();
      co_await yield();
      try {
        co_await y.close();
      } catch (const operation_cancelled&) {
        out = true;
      }
    }(a, b, a_is_held, cancelled));
    here.run();
    CHECK(cancelled);
    CHECK_THROWS_AS(b.post([] {}), section_closed);
    sync_wait(scope.join());
    sync_wait(other.join());
    CHECK(a.statistics().executions == 2);
  }

  TEST_CASE(
      "close: below what is stopped already, of what is closed, there is nothing to wait for") {
    critical_section cs;
    sync_wait(cs.close());
    loop here;
    async_scope scope{{.executor = here}};
    bool over = false;
    scope.request_stop();
    scope.spawn([](critical_section& c, bool& out) -> task<> {
      co_await c.close();
      out = true;
    }(cs, over));
    here.run();
    CHECK(over);
    CHECK(cs.statistics().withdrawn == 0);
    sync_wait(scope.join());
  }
}
