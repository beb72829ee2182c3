// async_scope.cpp - coroutines that nobody awaits one by one.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace std::chrono_literals;
using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;
using support::loop;

namespace {

task<> step(std::vector<int>& list, gate& g) {
  list.push_back(1);
  co_await g;
  list.push_back(2);
}

task<> wait_then_throw(gate& g, const char* text) {
  co_await g;
  throw std::runtime_error(text);
}

foreign join(async_scope& s, bool& over) {
  co_await s.join();
  over = true;
}

// Spawned before anybody asked for the scope's token, in line for `b` when the scope is stopped.
template <class Work>
void check_does_not_run(Work work) {
  critical_section a("a");
  critical_section b("b");
  bool ran = false;
  auto busy = support::hold(b);
  async_scope scope;
  scope.spawn(work(a, b, [&ran] { ran = true; }));
  scope.request_stop();
  busy.unlock();
  CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
  CHECK_FALSE(ran);
  CHECK_FALSE(a.statistics().held);
  CHECK_FALSE(b.statistics().held);
  CHECK(b.statistics().waiters == 0);
}

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("scope: work starts on the calling thread and runs until it first suspends") {
    async_scope scope;
    gate g;
    std::vector<int> list;
    scope.spawn(step(list, g));
    CHECK(list == std::vector<int>{1});
    g.open();
    CHECK(list == std::vector<int>{1, 2});
    sync_wait(scope.join());
    static_assert(!std::is_copy_constructible_v<async_scope>);
  }

  TEST_CASE("scope: work starts on the scope's executor if there is one") {
    loop l;
    async_scope scope{{.executor = l}};
    gate g;
    std::vector<int> list;
    scope.spawn(step(list, g));
    CHECK(list.empty());
    l.run();
    CHECK(list == std::vector<int>{1});
    g.open();
    sync_wait(scope.join());
  }

  TEST_CASE("scope: takes any awaitable") {
    async_scope scope;
    critical_section cs;
    int n = 0;
    scope.spawn(cs.execute([&] { ++n; }));
    scope.spawn(cs.lock());
    scope.spawn(cs.submit([&] { return ++n; }));
    sync_wait(scope.join());
    CHECK(n == 2);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("join: of an empty scope is ready at once, and again") {
    async_scope scope;
    sync_wait(scope.join());
    sync_wait(scope.join());
  }

  TEST_CASE("join: waits for all, and may be awaited by several and again") {
    async_scope scope;
    gate g;
    std::vector<int> list;
    for (int i = 0; i != 3; ++i) scope.spawn(step(list, g));
    bool over[2] = {};
    const foreign a = join(scope, over[0]);
    const foreign b = join(scope, over[1]);
    CHECK_FALSE(over[0]);
    g.open();
    CHECK(over[0]);
    CHECK(over[1]);
    CHECK(list.size() == 6);
    gate later;
    scope.spawn(step(list, later));
    bool again = false;
    const foreign c = join(scope, again);
    CHECK_FALSE(again);
    later.open();
    CHECK(again);
  }

  TEST_CASE("join: throws the error that happened first, after all have ended; then no more") {
    async_scope scope;
    gate gates[3];
    std::vector<int> list;
    scope.spawn(wait_then_throw(gates[0], "spawned first"));
    scope.spawn(wait_then_throw(gates[1], "spawned second"));
    scope.spawn(step(list, gates[2]));
    bool over = false;
    const foreign f = join(scope, over);
    gates[1].open();
    gates[0].open();
    CHECK_FALSE(f.done());
    gates[2].open();
    CHECK(f.done());
    CHECK_FALSE(over);
    CHECK_THROWS_WITH(f.rethrow(), "spawned second");
    CHECK_NOTHROW(sync_wait(scope.join()));
  }

  TEST_CASE("join: resumes on the executor it left") {
    loop home;
    gate g;
    std::vector<int> list;
    async_scope inner;
    inner.spawn(step(list, g));
    bool at_home = false;
    async_scope outer{{.executor = home}};
    outer.spawn([](async_scope& s, loop& l, bool& there) -> task<> {
      co_await s.join();
      there = l.here();
    }(inner, home, at_home));
    home.run();
    g.open();
    home.run();
    CHECK(at_home);
    sync_wait(outer.join());
  }

  TEST_CASE("join: the awaiter may destroy the scope at once") {
    thread_pool pool{2};
    for (int round = 0; round != 500; ++round) {
      auto scope = std::make_unique<async_scope>(scope_options{.executor = pool});
      std::atomic<int> n{0};
      for (int i = 0; i != 3; ++i) {
        scope->spawn([](std::atomic<int>& count) -> task<> {
          ++count;
          co_return;
        }(n));
      }
      sync_wait([](std::unique_ptr<async_scope>& s) -> task<> {
        co_await s->join();
        s.reset();
      }(scope));
      CHECK(n == 3);
    }
  }

  TEST_CASE("join: does not return while work runs, spawned and joined again and again") {
    thread_pool pool{2};
    async_scope scope{{.executor = pool}};
    std::atomic<int> n{0};
    int early = 0;
    sync_wait([](async_scope& s, std::atomic<int>& count, int& too_early) -> task<> {
      for (int i = 1; i <= 20000; ++i) {
        s.spawn([](std::atomic<int>& c) -> task<> {
          ++c;
          co_return;
        }(count));
        co_await s.join();
        too_early += count == i ? 0 : 1;
      }
    }(scope, n, early));
    CHECK(n == 20000);
    CHECK(early == 0);
  }

  TEST_CASE("join: of several joiners on several threads exactly one gets the error") {
    for (int round = 0; round != 300; ++round) {
      async_scope scope;
      gate g;
      scope.spawn(wait_then_throw(g, "once"));
      std::atomic<int> errors{0};
      std::vector<std::jthread> joiners;
      for (int i = 0; i != 3; ++i) {
        joiners.emplace_back([&] {
          try {
            sync_wait(scope.join());
          } catch (const std::runtime_error&) {
            ++errors;
          }
        });
      }
      g.open();
      joiners.clear();
      CHECK(errors == 1);
    }
  }

  TEST_CASE("scope: work may spawn more work") {
    thread_pool pool{2};
    async_scope scope{{.executor = pool}};
    std::atomic<int> n{0};
    struct tree {
      static task<> grow(async_scope& s, std::atomic<int>& count, int depth) {
        ++count;
        if (depth == 0) co_return;
        s.spawn(grow(s, count, depth - 1));
        s.spawn(grow(s, count, depth - 1));
      }
    };
    scope.spawn(tree::grow(scope, n, 9));
    sync_wait(scope.join());
    CHECK(n == 1023);
  }

  TEST_CASE("scope: from several threads at once") {
    thread_pool pool{2};
    async_scope scope{{.executor = pool}};
    std::atomic<int> n{0};
    {
      std::vector<std::jthread> all;
      for (int t = 0; t != 3; ++t) {
        all.emplace_back([&] {
          for (int i = 0; i != 300; ++i) {
            scope.spawn([](std::atomic<int>& count) -> task<> {
              ++count;
              co_return;
            }(n));
          }
        });
      }
    }
    sync_wait(scope.join());
    CHECK(n == 900);
  }

  TEST_CASE("scope: an error that no join took goes to on_unobserved_error") {
    const support::unobserved errors;
    {
      async_scope scope;
      gate g;
      g.open();
      scope.spawn(wait_then_throw(g, "nobody joined"));
    }
    REQUIRE(errors.seen().size() == 1);
    CHECK_THROWS_WITH(std::rethrow_exception(errors.seen()[0].error), "nobody joined");
    CHECK(std::string(errors.seen()[0].where.file_name()).ends_with("async_scope.cpp"));
  }

  TEST_CASE("scope: an error that a join took goes nowhere else") {
    const support::unobserved errors;
    {
      async_scope scope;
      gate g;
      g.open();
      scope.spawn(wait_then_throw(g, "joined"));
      CHECK_THROWS_WITH(sync_wait(scope.join()), "joined");
    }
    CHECK(errors.seen().empty());
  }

  TEST_CASE("scope: work and results are destroyed exactly once") {
    {
      async_scope scope;
      scope.spawn([](counted c) -> task<counted> { co_return c; }(counted(1)));
      sync_wait(scope.join());
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("scope: its token is one, and a request stops it") {
    async_scope scope;
    const std::stop_token token = scope.stop_token();
    CHECK(token.stop_possible());
    CHECK_FALSE(token.stop_requested());
    scope.request_stop();
    scope.request_stop();
    CHECK(token.stop_requested());
    CHECK(token == scope.stop_token());
  }

  TEST_CASE("scope: a stop ends what its work waits for, whenever that was spawned") {
    gate end;
    critical_section cs;
    async_scope other;
    other.spawn(wait_then_throw(end, "not now"));
    auto handle = cs.submit([&end]() -> task<> { co_await end; });
    async_scope scope;
    scope.spawn(other.join());
    scope.spawn([](execution_handle<void>& h) -> task<> { co_await h; }(handle));
    scope.spawn(when_all(other.join(), other.join()));
    scope.request_stop();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK_NOTHROW(sync_wait(scope.join()));
    end.open();
    CHECK_NOTHROW(sync_wait(handle));
    CHECK_THROWS_WITH(sync_wait(other.join()), "not now");
  }

  TEST_CASE("scope: what waits in a line when it is stopped does not run when its turn comes") {
    using section = critical_section;
    SUBCASE("an execution") {
      check_does_not_run([](section&, section& b, auto run) -> task<> { co_await b.execute(run); });
    }
    SUBCASE("a lock") {
      check_does_not_run([](section&, section& b, auto run) -> task<> {
        const auto guard = co_await b.lock();
        run();
      });
    }
    SUBCASE("an execution below a guard") {
      check_does_not_run([](section& a, section& b, auto run) -> task<> {
        const auto guard = co_await a.lock();
        co_await b.execute(run);
      });
    }
    SUBCASE("a lock below a guard") {
      check_does_not_run([](section& a, section& b, auto run) -> task<> {
        const auto guard = co_await a.lock();
        const auto another = co_await b.lock();
        run();
      });
    }
    SUBCASE("an execution within a body") {
      check_does_not_run([](section& a, section& b, auto run) -> task<> {
        auto body = [&]() -> task<> { co_await b.execute(run); };
        co_await a.execute(body);
      });
    }
    SUBCASE("an execution that has a deadline") {
      check_does_not_run([](section&, section& b, auto run) -> task<> {
        const execute_options late{.deadline = std::chrono::steady_clock::now() + 1h};
        co_await b.execute(run, late);
      });
    }
    SUBCASE("one that waits for a predicate") {
      check_does_not_run([](section&, section& b, auto run) -> task<> {
        auto asks = [&run] {
          run();
          return true;
        };
        co_await b.execute_when(asks, run);
      });
    }
    SUBCASE("several sections") {
      check_does_not_run([](section& a, section& b, auto run) -> task<> {
        co_await execute(std::tie(a, b), run);
      });
    }
    SUBCASE("several sections, with a deadline") {
      check_does_not_run([](section& a, section& b, auto run) -> task<> {
        const execute_options late{.deadline = std::chrono::steady_clock::now() + 1h};
        co_await execute(std::tie(a, b), run, late);
      });
    }
    SUBCASE("a body that submits") {
      check_does_not_run([](section&, section& b, auto run) -> task<> {
        auto body = [&run](stream&) { run(); };
        co_await b.execute(body);
      });
    }
  }

  TEST_CASE("scope: a stop ends what was set aside, whenever that was spawned") {
    critical_section cs;
    bool ran = false;
    async_scope scope;
    const auto waits = [](critical_section& s, bool& was) -> task<> {
      auto never = [] { return false; };
      auto body = [&was] { was = true; };
      co_await s.execute_when(never, body);
    };
    scope.spawn(waits(cs, ran));
    CHECK(cs.statistics().waiters == 1);
    scope.request_stop();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK_FALSE(ran);
    CHECK(cs.statistics().waiters == 0);
  }

  TEST_CASE("scope: work spawned after a stop starts, and waits for nothing") {
    gate end;
    std::vector<int> list;
    async_scope other;
    other.spawn(step(list, end));
    async_scope scope;
    scope.request_stop();
    bool started = false;
    scope.spawn([](async_scope& s, bool& there) -> task<> {
      there = true;
      co_await s.join();
    }(other, started));
    CHECK(started);
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    end.open();
    sync_wait(other.join());
  }

  TEST_CASE("scope: with fail_fast the first error stops the rest, and join throws it") {
    gate end;
    gate fails;
    std::vector<int> list;
    async_scope other;
    other.spawn(step(list, end));
    async_scope scope{{.fail_fast = true}};
    scope.spawn(other.join());
    scope.spawn(wait_then_throw(fails, "the cause"));
    scope.spawn(other.join());
    CHECK_FALSE(scope.stop_token().stop_requested());
    fails.open();
    CHECK(scope.stop_token().stop_requested());
    CHECK_THROWS_WITH(sync_wait(scope.join()), "the cause");
    end.open();
    sync_wait(other.join());
  }

  TEST_CASE("scope: without fail_fast an error stops nobody") {
    async_scope scope;
    gate g;
    g.open();
    scope.spawn(wait_then_throw(g, "alone"));
    CHECK_FALSE(scope.stop_token().stop_requested());
    CHECK_THROWS_WITH(sync_wait(scope.join()), "alone");
  }

  TEST_CASE("join: an error proper counts, though a cancellation happened before it") {
    gate g;
    async_scope scope;
    scope.spawn([]() -> task<> {
      throw operation_cancelled();
      co_return;
    }());
    scope.spawn(wait_then_throw(g, "the cause"));
    g.open();
    CHECK_THROWS_WITH(sync_wait(scope.join()), "the cause");
    CHECK_NOTHROW(sync_wait(scope.join()));
  }

  TEST_CASE("scope: a cancellation that no join took is reported only if nobody asked for it") {
    const support::unobserved errors;
    const auto cancelled = []() -> task<> {
      throw operation_cancelled();
      co_return;
    };
    {
      async_scope asked;
      asked.request_stop();
      asked.spawn(cancelled());
    }
    CHECK(errors.seen().empty());
    {
      async_scope not_asked;
      not_asked.spawn(cancelled());
    }
    CHECK(errors.seen().size() == 1);
    {
      async_scope stops_because_of_it{{.fail_fast = true}};
      stops_because_of_it.spawn(cancelled());
    }
    CHECK(errors.seen().size() == 2);
  }

  TEST_CASE("join: one that is withdrawn ends, may be awaited again, and others go on waiting") {
    gate end;
    std::vector<int> list;
    async_scope work;
    work.spawn(step(list, end));
    bool over = false;
    const foreign stays = join(work, over);
    async_scope joins;
    for (int i = 0; i != 3; ++i) joins.spawn(work.join());
    joins.request_stop();
    CHECK_THROWS_AS(sync_wait(joins.join()), operation_cancelled);
    CHECK_FALSE(over);
    end.open();
    CHECK(over);
    sync_wait(work.join());
  }

  TEST_CASE("join: withdrawn while the last work ends, it ends once, on several threads") {
    thread_pool pool{2};
    for (int round = 0; round != 500; ++round) {
      async_scope work{{.executor = pool}};
      work.spawn([]() -> task<> { co_return; }());
      async_scope joins{{.executor = pool}};
      std::atomic<int> ends{0};
      joins.spawn([](async_scope& s, std::atomic<int>& n) -> task<> {
        try {
          co_await s.join();
        } catch (const operation_cancelled&) {
        }
        ++n;
      }(work, ends));
      joins.request_stop();
      sync_wait(joins.join());
      CHECK(ends == 1);
      sync_wait(work.join());
    }
  }

  TEST_CASE("join: awaiting one twice aborts") {
    support::check_dies(
        [] {
          async_scope scope;
          support::await_twice(scope.join());
        },
        "a join is");
  }

  TEST_CASE("join: destroying a coroutine that waits in it aborts") {
    const auto child = [] {
      gate g;
      std::vector<int> list;
      bool over = false;
      async_scope scope;
      scope.spawn(step(list, g));
      {
        const foreign f = support::await_in_foreign(scope.join(), over);
      }
    };
    support::check_dies(child, "a coroutine is destroyed while it waits in join");
  }

  TEST_CASE("scope: destroying it while its work has not ended aborts") {
    support::check_dies(
        [] {
          gate g;
          std::vector<int> list;
          auto scope = std::make_unique<async_scope>();
          scope->spawn(step(list, g));
          scope.reset();
        },
        "an async_scope is destroyed while its work has not ended");
  }

  TEST_CASE(
      "async_scope: once a stop is requested no body of its work begins, however it was spawned") {
    critical_section a;
    critical_section b;
    support::loop here;
    async_scope scope{{.executor = here}};
    int ran = 0;
    int cancelled = 0;
    const auto ends = [&cancelled](auto request) -> task<> {
      try {
        co_await std::move(request);
      } catch (const operation_cancelled&) {
        ++cancelled;
      }
    };
    section_guard guard = std::move(a.try_lock().value());
    const auto body = [&ran] { ++ran; };
    const auto waiting_body = [&ran]() -> task<> {
      ++ran;
      co_return;
    };
    scope.spawn(ends(a.execute(body)));
    scope.spawn(ends(a.execute(waiting_body)));
    scope.spawn(ends(a.lock()));
    scope.spawn(ends(execute(std::tie(a, b), body)));
    here.run();
    scope.request_stop();
    guard.unlock();
    here.run();
    sync_wait(scope.join());
    CHECK(ran == 0);
    CHECK(cancelled == 4);
    CHECK(a.statistics().withdrawn == 4);
    CHECK_FALSE(a.statistics().held);
    CHECK(b.statistics().executions == 0);
  }
}
