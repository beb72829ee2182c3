// sleep.cpp - coroutines that wait for a time: when and where they go on, and how they are stopped.

#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/loop.hpp"
#include "support/stoppable.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
using support::await_in_foreign;
using support::await_moved_from;
using support::await_twice;
using support::foreign;
using support::loop;
using support::run_on;
using support::stoppable;

namespace {

using ids = std::vector<int>;

task<> sleep_and_note(std::chrono::nanoseconds time, ids& list, int id) {
  co_await sleep_for(time);
  list.push_back(id);
}

task<bool> is_on_shared_after(std::chrono::nanoseconds time) {
  co_await sleep_for(time);
  co_return detail::here().runs_on == executor_ref(thread_pool::shared());
}

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("sleep: coroutines go on in the order of time, each when it is over") {
    manual_clock clock;
    loop l;
    ids list;
    async_scope scope{{.executor = l}};
    scope.spawn(sleep_and_note(3s, list, 3));
    scope.spawn(sleep_and_note(1s, list, 1));
    scope.spawn(sleep_and_note(2s, list, 2));
    scope.spawn(sleep_and_note(1s, list, 11));
    l.run();
    CHECK(clock.pending() == 4);
    clock.advance(1s);
    CHECK(list.empty());  // never inside the call
    l.run();
    CHECK(list == ids{1, 11});
    clock.advance(10s);
    l.run();
    CHECK(list == ids{1, 11, 2, 3});
    sync_wait(scope.join());
  }

  TEST_CASE("sleep: a time that is past does not suspend") {
    const manual_clock clock;
    loop l;
    ids list;
    async_scope scope{{.executor = l}};
    scope.spawn([](ids& out, steady_clock::time_point now) -> task<> {
      co_await sleep_for(0s);
      co_await sleep_for(-1h);
      co_await sleep_until(now);
      co_await sleep_until(steady_clock::time_point::min());
      out.push_back(1);
    }(list, clock.now()));
    CHECK(l.run_one());
    CHECK(list == ids{1});
    sync_wait(scope.join());
  }

  TEST_CASE("sleep: goes on on the executor it left") {
    manual_clock clock;
    loop home;
    loop other;
    bool was_home = false;
    async_scope scope;
    scope.spawn(schedule_on(home, [](loop& h, bool& out) -> task<> {
      co_await sleep_for(1s);
      out = h.here();
    }(home, was_home)));
    home.run();
    run_on(other, [&] { clock.advance(1s); });
    CHECK(home.run() == 1);
    CHECK(was_home);
    sync_wait(scope.join());
  }

  TEST_CASE("sleep: without an executor goes on on the shared pool") {
    CHECK(sync_wait(is_on_shared_after(1ms)));
    CHECK(detail::here().runs_on == executor_ref());
  }

  TEST_CASE("sleep: by the steady clock is never too short") {
    const auto begin = steady_clock::now();
    sync_wait(sleep_for(3ms));
    CHECK(steady_clock::now() - begin >= 3ms);
    const auto until = steady_clock::now() + 2ms;
    sync_wait(sleep_until(until));
    CHECK(steady_clock::now() >= until);
  }

  TEST_CASE("sleep: counts from when it is awaited, and may be moved until then") {
    manual_clock clock;
    loop l;
    bool over = false;
    auto first = sleep_for(1s);
    clock.advance(10s);
    std::optional<foreign> f;
    run_on(l, [&] { f.emplace(await_in_foreign(std::move(first), over)); });
    CHECK(clock.pending() == 1);
    clock.advance(1s);
    l.run();
    CHECK(over);
    f->rethrow();
  }

  TEST_CASE("sleep: the longest durations do not overflow") {
    using detail::whole_nanoseconds;
    using std::chrono::duration;
    using std::chrono::nanoseconds;
    CHECK(whole_nanoseconds(std::chrono::hours::max()) == nanoseconds::max());
    CHECK(whole_nanoseconds(std::chrono::hours::min()) == nanoseconds::zero());
    CHECK(whole_nanoseconds(nanoseconds::max()) == nanoseconds::max());
    CHECK(whole_nanoseconds(nanoseconds::max() - 1ns) == nanoseconds::max() - 1ns);
    CHECK(whole_nanoseconds(duration<double>(1e30)) == nanoseconds::max());
    CHECK(whole_nanoseconds(duration<double, std::nano>(0.1)) == 1ns);
    CHECK(whole_nanoseconds(duration<int, std::ratio<1, 3>>(1)) == 333333334ns);
  }

  TEST_CASE("sleep: a foreign coroutine goes on on the executor it left") {
    manual_clock clock;
    loop l;
    bool over = false;
    std::optional<foreign> f;
    run_on(l, [&] { f.emplace(await_in_foreign(sleep_for(1s), over)); });
    CHECK_FALSE(over);
    clock.advance(1s);
    CHECK_FALSE(over);
    CHECK(l.run() == 1);
    CHECK(over);
  }

  TEST_CASE("sleep: a foreign coroutine without an executor goes on on the shared pool") {
    bool over = false;
    const foreign f = await_in_foreign(sleep_for(1ms), over);
    f.wait();
    f.rethrow();
    CHECK(over);
  }

  TEST_CASE("sleep: the longest one goes on waiting until it is stopped") {
    manual_clock clock;
    loop l;
    std::stop_source source;
    bool over = false;
    std::optional<foreign> f;
    run_on(l, [&] {
      const stoppable around(source.get_token());
      f.emplace(await_in_foreign(sleep_for(std::chrono::hours::max()), over));
    });
    clock.advance(24h * 365 * 100);
    CHECK(l.run() == 0);
    source.request_stop();
    CHECK_FALSE(f->done());  // never inside the stop callback
    CHECK(l.run() == 1);
    CHECK(f->done());
    CHECK_FALSE(over);
    CHECK_THROWS_AS(f->rethrow(), operation_cancelled);
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("sleep: what is stopped already is refused at once, even for a time that is past") {
    const manual_clock clock;
    std::stop_source source;
    source.request_stop();
    const stoppable around(source.get_token());
    CHECK_THROWS_AS(sync_wait(sleep_for(1s)), operation_cancelled);
    CHECK_THROWS_AS(sync_wait(sleep_for(0s)), operation_cancelled);
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("sleep: a stop ends it without an executor, too") {
    std::stop_source source;
    bool over = false;
    const auto begin = [&] {
      const stoppable around(source.get_token());
      return await_in_foreign(sleep_for(10h), over);
    };
    const foreign f = begin();
    source.request_stop();
    f.wait();
    CHECK_THROWS_AS(f.rethrow(), operation_cancelled);
  }

  TEST_CASE("sleep: of a scope's work, though nobody had asked for the scope's token before") {
    loop l;
    ids list;
    async_scope scope{{.executor = l}};
    scope.spawn(sleep_and_note(24h, list, 1));
    l.run();
    scope.request_stop();
    l.run();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK(list.empty());
  }

  TEST_CASE("sleep: a stop after its time changes nothing") {
    manual_clock clock;
    loop l;
    std::stop_source source;
    bool over = false;
    std::optional<foreign> f;
    run_on(l, [&] {
      const stoppable around(source.get_token());
      f.emplace(await_in_foreign(sleep_for(1s), over));
    });
    clock.advance(1s);
    source.request_stop();
    CHECK(l.run() == 1);
    f->rethrow();
    CHECK(over);
  }

  TEST_CASE("sleep: a token that never stops is none") {
    manual_clock clock;
    loop l;
    bool over = false;
    std::optional<foreign> f;
    run_on(l, [&] {
      const stoppable around{std::stop_token()};
      f.emplace(await_in_foreign(sleep_for(1s), over));
    });
    clock.advance(1s);
    l.run();
    CHECK(over);
  }

  TEST_CASE("sleep: a section may be held meanwhile") {
    thread_pool pool{1};
    critical_section cs;
    auto body = []() -> task<int> {
      co_await sleep_for(1ms);
      co_return 3;
    };
    const auto ask = [&]() -> task<int> { co_return co_await cs.execute(body); };
    CHECK(sync_wait(schedule_on(pool, ask())) == 3);
  }

  TEST_CASE("sleep: awaiting one twice, or one that was moved from, aborts") {
    support::check_dies([] { await_twice(sleep_for(0s)); }, "a sleep is");
    support::check_dies([] { await_moved_from(sleep_for(0s)); }, "a sleep is");
  }

  TEST_CASE("sleep: destroying a coroutine that sleeps aborts") {
    const auto child = [] {
      const manual_clock clock;
      loop l;
      bool over = false;
      std::optional<foreign> f;
      run_on(l, [&] { f.emplace(await_in_foreign(sleep_for(1s), over)); });
      f.reset();
    };
    support::check_dies(child, "sleeps");
  }

  TEST_CASE("sleep: the awaiter is movable and no copy") {
    static_assert(std::is_move_constructible_v<detail::sleep_awaiter>);
    static_assert(!std::is_copy_constructible_v<detail::sleep_awaiter>);
  }
}
