// chain.cpp - what is part of a chain of awaits, and what starts one of its own.

#include "support/coroutine_types.hpp"
#include "support/elsewhere.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <exception>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

task<> enter(critical_section& cs, int& n) {
  co_await cs.execute([&n] { ++n; });
}

using lazy = support::lazy<support::as_it_is>;

lazy enter_lazily(critical_section& cs) {
  co_await cs.execute([] {});
}

lazy lock_lazily(critical_section& cs, section_guard& into) { into = co_await cs.lock(); }

task<> nothing() { co_return; }

// A scheduler of somebody's: the one that waits here goes on when another one does, in its stead.
struct turns {
  struct parked {
    turns& at;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const noexcept { at.next = h; }
    void await_resume() const noexcept {}
  };
  struct given_to_next {
    turns& at;
    bool await_ready() const noexcept { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> h) const noexcept {
      at.last = h;
      return std::exchange(at.next, {});
    }
    void await_resume() const noexcept {}
  };

  parked park() noexcept { return {*this}; }
  given_to_next give() noexcept { return {*this}; }

  std::coroutine_handle<> next;
  std::coroutine_handle<> last;
};

// Gives back whoever awaits it, which goes on at once.
struct itself {
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h) const noexcept { return h; }
  void await_resume() const noexcept {}
};

foreign enter_when_its_turn_comes(critical_section& cs, turns& at) {
  co_await at.park();
  co_await cs.execute([] {});
}

// Goes on within the call that suspends.
struct at_once {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const { h.resume(); }
  void await_resume() const noexcept {}
};

// What the calling chain has, with what is gone from it and was not taken out.
std::size_t frames_here() {
  std::size_t n = 0;
  for (const detail::chain_frame* f = detail::here().chain; f != nullptr; f = f->parent) ++n;
  return n;
}

task<section_guard> step(section_guard& from, critical_section& to) {
  section_guard next = co_await to.lock();
  from.unlock();
  co_return next;
}

// Takes each before it lets the last one go.
task<> roll(critical_section (&ring)[3], int steps, std::size_t& most) {
  section_guard held = co_await ring[0].lock();
  for (int i = 1; i <= steps; ++i) {
    held = co_await ring[i % 3].lock();
    most = std::max(most, frames_here());
  }
}

// Asks for a section when an error is reported.
struct asks {
  static inline critical_section* section = nullptr;
  static inline bool refused = false;
  static inline int reports = 0;

  static void note(std::exception_ptr, std::string_view, std::source_location) {
    ++reports;
    try {
      static_cast<void>(section->try_execute([] {}));
    } catch (const reentry_error&) {
      refused = true;
    }
  }
};

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("chain: spawned work asks for the section it was spawned in, and runs after it") {
    critical_section cs;
    async_scope scope;
    int n = 0;
    int n_inside = -1;
    sync_wait(cs.execute([&] {
      scope.spawn(enter(cs, n));
      n_inside = n;
    }));
    sync_wait(scope.join());
    CHECK(n_inside == 0);
    CHECK(n == 1);
  }

  TEST_CASE("chain: work spawned while a guard is owned waits for the guard") {
    critical_section cs;
    async_scope scope;
    int n = 0;
    section_guard g = sync_wait(cs.lock());
    scope.spawn(enter(cs, n));
    CHECK(n == 0);
    g.unlock();
    CHECK(n == 1);
    sync_wait(scope.join());
  }

  TEST_CASE("chain: submit and post to the section held are legal, and run after it") {
    critical_section cs;
    std::vector<int> order;
    std::optional<execution_handle<void>> h;
    sync_wait(cs.execute([&] {
      h.emplace(cs.submit([&] { order.push_back(2); }));
      cs.post([&] { order.push_back(3); });
      order.push_back(1);
    }));
    sync_wait(*h);
    sync_wait(cs.close());
    CHECK(order == std::vector<int>{1, 2, 3});
  }

  TEST_CASE("chain: what was submitted in one section starts an empty chain in another") {
    loop l;
    critical_section a{section_options{.executor = l}};
    critical_section b{section_options{.executor = l}};
    int n = 0;
    a.post([&] { b.post([&] { return enter(a, n); }); });
    l.run();
    CHECK(n == 1);
  }

  TEST_CASE("chain: a drained body starts from its own awaiter's chain, not from the drainer's") {
    critical_section a{"a"};
    critical_section b{"b"};
    int n = 0;
    section_guard busy = support::hold(b);
    // Waits for b without holding anything, and asks for a from inside.
    auto ask_a = [&] { return enter(a, n); };
    bool over = false;
    const foreign waiter = support::await_in_foreign(b.execute(ask_a), over);
    // The drainer holds a while it serves b.
    sync_wait(a.execute([&] { busy.unlock(); }));
    CHECK(over);
    CHECK(n == 1);
  }

  TEST_CASE("chain: a coroutine resumed by a drainer does not hold what the drainer holds") {
    critical_section a{"a"};
    critical_section b{"b"};
    int n = 0;
    section_guard busy = support::hold(b);
    const foreign waiter = [](critical_section& first, critical_section& second,
                              int& count) -> foreign {
      co_await first.execute([] {});
      co_await second.execute([&count] { ++count; });
    }(b, a, n);
    sync_wait(a.execute([&] { busy.unlock(); }));
    CHECK_NOTHROW(waiter.rethrow());
    CHECK(n == 1);
  }

  TEST_CASE("chain: a thread gets its own chain back when a task suspends or ends on it") {
    critical_section cs{"a"};
    gate g;
    async_scope scope;
    int n = 0;
    scope.spawn([](critical_section& s, gate& at) -> task<> {
      const section_guard guard = co_await s.lock();
      co_await at;
    }(cs, g));
    // The task holds cs and is suspended: this thread does not hold it.
    bool over = false;
    const foreign f = support::await_in_foreign(enter(cs, n), over);
    CHECK_FALSE(over);
    CHECK_NOTHROW(f.rethrow());
    g.open();
    CHECK(over);
    CHECK(n == 1);
    sync_wait(scope.join());
  }

  TEST_CASE("chain: whoever opens the gate of a task does not become part of its chain") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate g;
    async_scope scope;
    int n = 0;
    scope.spawn([](critical_section& s, gate& at, int& count) -> task<> {
      co_await at;
      co_await enter(s, count);
    }(b, g, n));
    auto open_inside = [&]() -> task<> {
      g.open();
      co_await enter(a, n);
    };
    sync_wait(b.execute(open_inside));
    sync_wait(scope.join());
    CHECK(n == 2);
  }

  TEST_CASE("chain: awaiting a handle of the section held is a deadlock_error") {
    critical_section cs{"accounts"};
    int n = 0;
    std::vector<path_step> path;
    auto body = [&]() -> task<> {
      auto h = cs.submit([&] { ++n; });
      try {
        co_await h;
      } catch (const reentry_error&) {
        throw;
      } catch (const deadlock_error& e) {
        path.assign(e.path().begin(), e.path().end());
        throw;
      }
    };
    CHECK_THROWS_AS(sync_wait(cs.execute(body)), deadlock_error);
    REQUIRE_FALSE(path.empty());
    CHECK(path.front().section == "accounts");
    CHECK(path.back().section == "accounts");
    sync_wait(cs.close());
    CHECK(n == 1);
  }

  TEST_CASE("chain: awaiting a handle of the section held through another is a deadlock_error") {
    critical_section a{"a"};
    critical_section b{"b"};
    auto inner = [&]() -> task<> { co_await a.submit([] {}); };
    auto outer = [&] { return b.execute(inner); };
    CHECK_THROWS_AS(sync_wait(a.execute(outer)), deadlock_error);
    sync_wait(a.close());
    sync_wait(b.close());
  }

  TEST_CASE("chain: a handle that is ready may be awaited inside its section") {
    critical_section cs;
    auto h = cs.submit([] { return 5; });
    while (!h.ready()) std::this_thread::yield();
    auto body = [&]() -> task<int> { co_return co_await h; };
    CHECK(sync_wait(cs.execute(body)) == 5);
  }

  TEST_CASE("chain: a handle of another section may be awaited inside a section") {
    critical_section a;
    critical_section b;
    auto body = [&]() -> task<int> { co_return co_await b.submit([] { return 6; }); };
    CHECK(sync_wait(a.execute(body)) == 6);
  }

  TEST_CASE("chain: guards unlocked in any order leave the chain as it was") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    int n = 0;
    auto whole = [&]() -> task<> {
      section_guard first = co_await a.lock();
      section_guard second = co_await b.lock();
      section_guard third = co_await c.lock();
      first.unlock();
      co_await enter(a, n);
      third.unlock();
      co_await enter(c, n);
      section_guard again = co_await a.lock();
      second.unlock();
      co_await enter(b, n);
      co_await enter(c, n);
    };
    sync_wait(whole());
    CHECK(n == 4);
    int after = 0;
    sync_wait(enter(a, after));
    CHECK(after == 1);
  }

  TEST_CASE("chain: a guard unlocked elsewhere while the chain waits is no longer held") {
    critical_section cs{"a"};
    gate g;
    section_guard guard;
    int n = 0;
    bool over = false;
    const foreign f = support::await_in_foreign(
        [](critical_section& s, section_guard& into, gate& at, int& count) -> task<> {
          into = co_await s.lock();
          co_await at;
          co_await enter(s, count);
        }(cs, guard, g, n),
        over);
    support::elsewhere([&] { guard.unlock(); });
    g.open();
    CHECK(over);
    CHECK(n == 1);
  }

  TEST_CASE("chain: an awaiter that resumes within await_suspend leaves a guard to be found once") {
    critical_section cs{"a"};
    section_guard kept;
    bool refused = false;
    auto take = [](critical_section& s, section_guard& into) -> task<> {
      into = co_await s.lock();
      co_await at_once();
    };
    const foreign f = [](task<> first, critical_section& s, bool& no) -> foreign {
      co_await std::move(first);
      try {
        co_await s.execute([] {});
      } catch (const reentry_error&) {
        no = true;
      }
    }(take(cs, kept), cs, refused);
    CHECK(f.done());
    CHECK(refused);
    kept.unlock();
    int n = 0;
    sync_wait(enter(cs, n));
    CHECK(n == 1);
  }

  TEST_CASE("chain: a lazy coroutine of another library starts as part of what awaits it") {
    critical_section cs{"busy"};
    const section_guard busy = support::hold(cs);
    CHECK_THROWS_AS(sync_wait(timeout(enter_lazily(cs), std::chrono::milliseconds(1))),
                    deadline_exceeded);
    CHECK(sync_wait(when_any(enter_lazily(cs), nothing())).index == 1);
    async_scope scope;
    static_cast<void>(scope.stop_token());  // it is stoppable from now on
    scope.spawn(enter_lazily(cs));
    CHECK(cs.statistics().waiters == 1);
    scope.request_stop();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK(cs.statistics().waiters == 0);
    // Whoever joins it inside of what it waits for.
    critical_section own{"own"};
    critical_section inner_most;
    async_scope inner;
    const auto join_inside = [&]() -> task<> {
      inner.spawn(enter_lazily(own));
      co_await inner.join();
    };
    CHECK_THROWS_AS(sync_wait(own.execute(join_inside)), deadlock_error);
    sync_wait(inner.join());
    // With a guard that was taken since it was resumed, twice, and after another one has come back.
    const auto enter_what_it_holds = [&]() -> task<> {
      co_await enter_lazily(inner_most);
      co_await nothing();
      const section_guard held = co_await own.lock();
      CHECK_THROWS_AS(co_await enter_lazily(own), reentry_error);
      co_await itself();
      CHECK_THROWS_AS(co_await enter_lazily(own), reentry_error);
      const auto again = [&]() -> task<> { co_await enter_lazily(own); };
      CHECK_THROWS_AS(co_await again(), reentry_error);
    };
    sync_wait(enter_what_it_holds());
    thread_pool pool(1);
    sync_wait(schedule_on(pool, enter_what_it_holds()));
    async_scope on_pool({.executor = pool});
    on_pool.spawn(enter_what_it_holds());
    sync_wait(on_pool.join());
  }

  TEST_CASE("chain: whoever a scheduler goes on with is no part of the chain that waits there") {
    for (const bool resumed_with_it : {false, true}) {
      critical_section cs{"a"};
      turns at;
      const foreign other = enter_when_its_turn_comes(cs, at);
      const auto hold_and_wait = [&]() -> task<> {
        section_guard held = co_await cs.lock();
        if (resumed_with_it) co_await yield();
        co_await at.give();
        held.unlock();
      };
      loop on;
      async_scope scope({.executor = on});
      static_cast<void>(scope.stop_token());  // it is stoppable from now on
      scope.spawn(hold_and_wait());
      on.run();
      scope.request_stop();
      CHECK(cs.statistics().waiters == 1);
      at.last.resume();
      on.run();
      sync_wait(scope.join());
      CHECK(other.done());
      CHECK_NOTHROW(other.rethrow());
    }
  }

  TEST_CASE("chain: a guard from a lazy coroutine of another library belongs to what awaited it") {
    critical_section cs{"a"};
    const auto enter_with_it = [&cs]() -> task<> {
      section_guard held;
      co_await lock_lazily(cs, held);
      CHECK_THROWS_AS(co_await cs.execute([] {}), reentry_error);
      held.unlock();
      co_await cs.execute([] {});
    };
    sync_wait(enter_with_it());
    thread_pool pool(1);
    sync_wait(schedule_on(pool, enter_with_it()));
    critical_section other{"b"};
    sync_wait(other.execute(enter_with_it));
    section_guard of_this_thread;
    sync_wait(lock_lazily(cs, of_this_thread));
    CHECK_THROWS_AS(sync_wait(cs.execute([] {})), reentry_error);
    of_this_thread.unlock();
    sync_wait(cs.execute([] {}));
  }

  TEST_CASE(
      "chain: a thread that ends with the frame of a guard that it gave away gives that back") {
    thread_pool pool(1);
    critical_section cs;
    section_guard given;
    std::thread([&] {
      const auto lock = [&cs]() -> task<section_guard> { co_return co_await cs.lock(); };
      given = sync_wait(schedule_on(pool, lock()));
    }).join();
    support::elsewhere([&] { given.unlock(); });
    sync_wait(cs.execute([] {}));  // the frame itself is the leak sanitizer's to find
  }

  TEST_CASE("chain: a coroutine of another library that awaits a fork holds what it held before") {
    thread_pool pool(1);
    critical_section cs{"a"};
    const auto fork_one = []() -> task<> { co_await turnstile::fork(nothing()); };
    for (int how = 0; how != 4; ++how) {
      const auto body = [&, how]() -> lazy {
        if (how == 0) co_await turnstile::fork(nothing());
        if (how == 1) co_await when_all(turnstile::fork(nothing()), nothing());
        if (how == 2) co_await when_any(turnstile::fork(nothing()), nothing());
        if (how == 3) co_await fork_one();
        co_await cs.execute([] {});
      };
      CHECK_THROWS_AS(sync_wait(schedule_on(pool, cs.execute(body))), reentry_error);
    }
  }

  TEST_CASE("chain: who hears of a stop by work that failed at once holds nothing of it") {
    critical_section cs;
    variable<std::vector<int>> seen{{}, "seen"};
    async_scope scope({.fail_fast = true});
    bool ran = false;
    const auto look = [&] {
      ran = cs.try_execute([] {});
      seen.assign({1});
    };
    const std::stop_callback asked(scope.stop_token(), look);
    scope.spawn([]() -> task<> {
      throw std::runtime_error("at once");
      co_return;
    }());
    CHECK(ran);
    CHECK_THROWS_AS(sync_wait(scope.join()), std::runtime_error);
  }

  TEST_CASE("chain: who is told of unobserved errors holds nothing") {
    critical_section held{"held"};
    critical_section posted{"posted"};
    asks::section = &held;
    on_unobserved_error(&asks::note);
    section_guard busy = support::hold(posted);
    posted.post([] { throw 1; });
    support::serve_here([&] {
      const section_guard mine = std::move(held.try_lock().value());
      busy.unlock();
    });
    on_unobserved_error(nullptr);
    CHECK(asks::reports == 1);
    CHECK_FALSE(asks::refused);
  }

  TEST_CASE("chain: children of when_all hold what their parent holds, and not each other's") {
    critical_section a{"a"};
    critical_section b{"b"};
    int n = 0;
    auto children = [&]() -> task<> { co_await when_all(enter(b, n), enter(b, n), enter(b, n)); };
    sync_wait(a.execute(children));
    CHECK(n == 3);
    auto one_refused = [&]() -> task<> { co_await when_all(enter(b, n), enter(a, n)); };
    CHECK_THROWS_AS(sync_wait(a.execute(one_refused)), reentry_error);
    CHECK(n == 4);
  }

  TEST_CASE("chain: a guard taken by a body that only returns an awaitable counts inside it") {
    critical_section a{"a"};
    critical_section b{"b"};
    int n = 0;
    auto body = [&] {
      section_guard g = std::move(b.try_lock().value());
      return [](section_guard, critical_section& s, int& count) -> task<> {
        co_await enter(s, count);
      }(std::move(g), b, n);
    };
    CHECK_THROWS_AS(sync_wait(a.execute(body)), reentry_error);
    CHECK(n == 0);
    sync_wait(enter(b, n));
    CHECK(n == 1);
  }

  TEST_CASE("chain: a body that leaves a guard behind leaves it to its awaiter") {
    critical_section a{"a"};
    critical_section b{"b"};
    section_guard kept;
    int n = 0;
    auto whole = [&]() -> task<> {
      co_await a.execute([&] { kept = std::move(b.try_lock().value()); });
      co_await enter(a, n);
      co_await enter(b, n);
    };
    CHECK_THROWS_AS(sync_wait(whole()), reentry_error);
    CHECK(n == 1);
    kept.unlock();
    sync_wait(enter(b, n));
    CHECK(n == 2);
  }

  TEST_CASE("chain: hand over hand, the guard that a task returns counts for its awaiter") {
    critical_section sections[4];
    int refused = 0;
    auto step = [](section_guard& from, critical_section& to) -> task<section_guard> {
      from.unlock();
      co_return co_await to.lock();
    };
    auto whole = [&]() -> task<> {
      section_guard held = co_await sections[0].lock();
      for (int i = 1; i != 4; ++i) {
        held = co_await step(held, sections[i]);
        int n = 0;
        co_await enter(sections[i - 1], n);
        try {
          co_await enter(sections[i], n);
        } catch (const reentry_error&) {
          ++refused;
        }
      }
    };
    sync_wait(whole());
    CHECK(refused == 3);
    CHECK_FALSE(sections[3].statistics().held);
  }

  TEST_CASE(
      "chain: hand over hand, locking the next before unlocking the last, above another guard") {
    critical_section below{"below"};
    critical_section sections[4];
    int refused = 0;
    auto step = [](section_guard& from, critical_section& to) -> task<section_guard> {
      section_guard next = co_await to.lock();
      from.unlock();
      co_return next;
    };
    auto is_refused = [](critical_section& cs, int& count) -> task<> {
      try {
        co_await cs.execute([] {});
      } catch (const reentry_error&) {
        ++count;
      }
    };
    auto whole = [&]() -> task<> {
      const section_guard bottom = co_await below.lock();
      section_guard held = co_await sections[0].lock();
      for (int i = 1; i != 4; ++i) {
        held = co_await step(held, sections[i]);
        int n = 0;
        co_await enter(sections[i - 1], n);
        co_await is_refused(sections[i], refused);
        co_await is_refused(below, refused);
      }
    };
    sync_wait(whole());
    CHECK(refused == 6);
    int after = 0;
    sync_wait(when_all(enter(below, after), enter(sections[3], after)));
    CHECK(after == 2);
  }

  TEST_CASE("chain: guards that take turns, the next one before the last, do not pile up") {
    critical_section ring[3];
    std::size_t most = 0;
    sync_wait(roll(ring, 20, most));
    CHECK(most == 1);
    const auto two_at_a_time = [&]() -> task<> {
      section_guard last = co_await ring[0].lock();
      section_guard held = co_await ring[1].lock();
      for (int i = 2; i != 20; ++i) {
        section_guard next = co_await ring[i % 3].lock();
        last = std::exchange(held, std::move(next));
        CHECK(frames_here() <= 3);
      }
    };
    sync_wait(two_at_a_time());
    const auto by_a_task = [&]() -> task<> {
      section_guard held = co_await ring[0].lock();
      for (int i = 1; i != 20; ++i) {
        held = co_await step(held, ring[i % 3]);
        CHECK(frames_here() == 1);
      }
    };
    sync_wait(by_a_task());
    const auto let_go_elsewhere = [&]() -> task<> {
      section_guard held = co_await ring[0].lock();
      for (int i = 1; i != 20; ++i) {
        section_guard next = co_await ring[i % 3].lock();
        support::elsewhere([&] { held.unlock(); });
        held = std::move(next);
        CHECK(frames_here() == 2);
      }
    };
    sync_wait(let_go_elsewhere());
  }

  TEST_CASE("chain: guards that take turns and wait for each do not pile up") {
    critical_section ring[3];
    std::size_t most = 0;
    section_guard busy = support::hold(ring[1]);
    bool over = false;
    const foreign f = support::await_in_foreign(roll(ring, 20, most), over);
    for (int i = 2; i <= 20; ++i) busy = support::hold(ring[i % 3]);
    busy.unlock();
    CHECK(over);
    CHECK_NOTHROW(f.rethrow());
    CHECK(most == 1);
  }

  TEST_CASE("chain: what is held among guards that take turns is still found, and nothing else") {
    critical_section below;
    critical_section between;
    critical_section ring[3];
    const auto refused = [](critical_section& cs) -> task<bool> {
      try {
        co_await cs.execute([] {});
      } catch (const reentry_error&) {
        co_return true;
      }
      co_return false;
    };
    const auto whole = [&]() -> task<> {
      const section_guard bottom = co_await below.lock();
      section_guard held = co_await ring[0].lock();
      for (int i = 1; i != 10; ++i) {
        section_guard middle = co_await between.lock();
        held = co_await ring[i % 3].lock();
        for (critical_section& cs : ring) CHECK(co_await refused(cs) == (&cs == &ring[i % 3]));
        CHECK(co_await refused(between));
        middle.unlock();
        CHECK_FALSE(co_await refused(between));
        CHECK(co_await refused(below));
      }
    };
    sync_wait(whole());
  }

  TEST_CASE("chain: a lazy coroutine of another library takes a guard and lets its awaiter's go") {
    critical_section a;
    critical_section b;
    for (const bool first_it_lets_go : {false, true}) {
      const auto lazy_step = [&](section_guard& held, section_guard& next) -> lazy {
        if (first_it_lets_go) held.unlock();
        next = co_await b.lock();
        held.unlock();
      };
      const auto whole = [&]() -> task<> {
        section_guard held = co_await a.lock();
        section_guard next;
        co_await lazy_step(held, next);
        co_await a.execute([] {});
        CHECK_THROWS_AS(co_await b.execute([] {}), reentry_error);
      };
      sync_wait(whole());
    }
  }

  TEST_CASE("chain: another library's coroutine may keep a long chain of a fiber") {
    std::deque<critical_section> many(1000);
    critical_section wanted;
    loop l;
    section_guard busy = support::hold(wanted);
    bool over = false;
    std::optional<foreign> other;
    auto fiber = spawn_fiber(l, [&] {
      std::vector<section_guard> held;
      for (critical_section& cs : many) held.push_back(await(cs.lock()));
      other.emplace(support::await_in_foreign(wanted.execute([] {}), over));
    });
    l.run();
    sync_wait(std::move(fiber));
    CHECK_FALSE(over);
    busy.unlock();
    l.run();
    CHECK(over);
  }

  TEST_CASE("chain: a guard taken by a when_all child and returned belongs to the parent") {
    critical_section a{"a"};
    critical_section b{"b"};
    auto take = [](critical_section& s) -> task<section_guard> { co_return co_await s.lock(); };
    auto whole = [&]() -> task<> {
      int n = 0;
      auto [first, second] = co_await when_all(take(a), take(b));
      bool refused = false;
      try {
        co_await enter(a, n);
      } catch (const reentry_error&) {
        refused = true;
      }
      CHECK(refused);
      first.unlock();
      co_await enter(a, n);
      second.unlock();
      co_await enter(b, n);
      CHECK(n == 2);
    };
    sync_wait(whole());
  }
}
