// kept_guards.cpp - guards of a section that stays with the thread that keeps coming back to it:
// unlocked there, on other threads, when that thread has ended, and by nobody in particular.
//
// Where nothing is ever kept (support::can_be_kept), all the same has to hold.

#include "support/dies.hpp"
#include "support/elsewhere.hpp"
#include "support/hold.hpp"
#include "support/keeping.hpp"

#include <turnstile/registry.hpp>
#include <turnstile/turnstile.hpp>

#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

using namespace turnstile;
using support::can_be_kept;
using support::come_back_to;
using support::elsewhere;
using support::endless_optimism;
using support::enough_bodies;
using support::kept_here;

namespace {

const auto nothing = [] {};

bool is_inside() { return detail::here().keeps->is_inside(); }

// The section is kept by this thread, and the guard is inside.
section_guard locked_where_kept(critical_section& cs) {
  come_back_to(cs);
  CHECK(kept_here(cs) == can_be_kept());
  section_guard guard = sync_wait(cs.lock());
  CHECK(guard.owns_lock());
  CHECK(kept_here(cs) == can_be_kept());
  CHECK(is_inside() == can_be_kept());
  CHECK(cs.statistics().held);
  CHECK(cs.statistics().waiters == 0);
  return guard;
}

void unlock(section_guard& guard, bool here) {
  if (here) {
    guard.unlock();
  } else {
    elsewhere([&] { guard.unlock(); });
  }
}

void check_idle(critical_section& cs, std::uint64_t executions) {
  CHECK(cs.statistics().executions == executions);
  CHECK(cs.statistics().waiters == 0);
  CHECK_FALSE(cs.statistics().held);
  CHECK(cs.try_execute(nothing));
}

// Comes back to it, whatever has become of it before.
void check_kept_again(critical_section& cs) {
  come_back_to(cs);
  CHECK(kept_here(cs) == can_be_kept());
  CHECK_FALSE(is_inside());
}

// `let_go` ends the guard, wherever it likes.
template <class F>
void check_let_go(F let_go) {
  const endless_optimism kept_each_time;
  critical_section cs;
  critical_section other;
  section_guard guard = locked_where_kept(cs);
  let_go(cs, guard);
  CHECK_FALSE(guard.owns_lock());
  check_idle(cs, enough_bodies + 1);
  check_kept_again(cs);
  check_kept_again(other);
  check_idle(cs, 2 * enough_bodies + 2);
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("kept guards: a section stays with who locks it again and again") {
    critical_section cs;
    int n = 0;
    const auto asks = [&](int times) -> task<> {
      for (int i = 0; i != times; ++i) {
        const section_guard guard = co_await cs.lock();
        ++n;
      }
    };
    sync_wait(asks(enough_bodies));
    CHECK(kept_here(cs) == can_be_kept());
    CHECK_FALSE(is_inside());
    sync_wait(asks(10'000));
    CHECK(kept_here(cs) == can_be_kept());
    cs.execute_blocking([&] { ++n; });
    CHECK(n == enough_bodies + 10'001);
    elsewhere([&] { check_idle(cs, enough_bodies + 10'001); });
  }

  TEST_CASE("kept guards: unlocked by its thread") {
    check_let_go([](critical_section& cs, section_guard& guard) {
      guard.unlock();
      CHECK(kept_here(cs) == can_be_kept());
      CHECK_FALSE(is_inside());
    });
  }

  TEST_CASE("kept guards: unlocked by another thread") {
    check_let_go([](critical_section& cs, section_guard& guard) {
      elsewhere([&] {
        guard.unlock();
        CHECK_FALSE(cs.statistics().held);
      });
      CHECK_FALSE(kept_here(cs));
      CHECK(is_inside() == can_be_kept());  // until it looks
    });
  }

  TEST_CASE("kept guards: detached, and unlocked by its thread and by another one") {
    for (const bool here : {true, false}) {
      CAPTURE(here);
      check_let_go([&](critical_section& cs, section_guard& guard) {
        guard.detach();
        CHECK(guard.owns_lock());
        CHECK(cs.statistics().held);
        CHECK_FALSE(kept_here(cs));
        CHECK_FALSE(is_inside());
        CHECK_FALSE(cs.try_execute(nothing));
        unlock(guard, here);
      });
    }
  }

  TEST_CASE("kept guards: detached by another thread, and unlocked by the first") {
    check_let_go([](critical_section& cs, section_guard& guard) {
      elsewhere([&] {
        guard.detach();
        CHECK_FALSE(cs.try_execute(nothing));
      });
      CHECK(cs.statistics().held);
      guard.unlock();
    });
  }

  TEST_CASE("kept guards: who waits runs in order when it is unlocked, here and elsewhere") {
    for (const bool here : {true, false}) {
      CAPTURE(here);
      critical_section cs;
      section_guard guard = locked_where_kept(cs);
      manual_executor loop;
      async_scope scope({.executor = loop});
      std::vector<int> ran;
      const auto ask = [&](int i) -> task<> { co_await cs.execute([&, i] { ran.push_back(i); }); };
      for (int i = 0; i != 20; ++i) scope.spawn(ask(i));
      std::ignore = loop.run();
      CHECK(ran.empty());
      CHECK(cs.statistics().waiters == 20);
      elsewhere([&] {
        CHECK_FALSE(cs.try_execute(nothing));
        CHECK_FALSE(cs.try_lock());
      });
      unlock(guard, here);
      while (ran.size() != 20) std::ignore = loop.run();
      std::ignore = loop.run();
      sync_wait(scope.join());
      for (int i = 0; i != 20; ++i) CHECK(ran[static_cast<std::size_t>(i)] == i);
      check_idle(cs, enough_bodies + 21);
    }
  }

  TEST_CASE("kept guards: its thread is refused re-entry while it has it, and not afterwards") {
    critical_section cs;
    section_guard guard = locked_where_kept(cs);
    CHECK_THROWS_AS(cs.execute_blocking(nothing), reentry_error);
    CHECK_FALSE(cs.try_execute(nothing));
    CHECK_FALSE(cs.try_lock());
    guard.unlock();
    check_idle(cs, enough_bodies + 1);
  }

  TEST_CASE("kept guards: inside of it other sections are entered, and none is kept") {
    critical_section cs;
    critical_section other;
    section_guard guard = locked_where_kept(cs);
    come_back_to(other);
    CHECK_FALSE(kept_here(other));
    CHECK(other.statistics().executions == enough_bodies);
    guard = section_guard();
    CHECK(kept_here(cs) == can_be_kept());
    check_kept_again(other);
    check_idle(cs, enough_bodies + 1);
  }

  TEST_CASE(
      "kept guards: its thread ends before it is unlocked, and nobody gets that one's keeper") {
    const endless_optimism kept_each_time;
    critical_section cs;
    critical_section other;
    section_guard guard;
    const detail::keeper* its = nullptr;
    bool is_others = false;
    const auto comes_back = [&] {
      check_kept_again(other);
      is_others = is_others || detail::here().keeps == its;
    };
    elsewhere([&] {
      guard = locked_where_kept(cs);
      its = detail::here().keeps;
    });
    elsewhere(comes_back);
    CHECK(is_others == !can_be_kept());  // where nothing is kept all have the same
    CHECK(cs.statistics().held);
    guard.unlock();
    check_idle(cs, enough_bodies + 1);
    elsewhere([&] {  // there are two by now
      comes_back();
      elsewhere(comes_back);
    });
    CHECK(is_others);
    check_idle(cs, enough_bodies + 2);
  }

  TEST_CASE("kept guards: times are taken of those that come after somebody has wanted that") {
    critical_section cs;
    section_guard guard = locked_where_kept(cs);
    registry::keep_times(cs);
    CHECK(kept_here(cs) == can_be_kept());
    guard.unlock();
    CHECK_FALSE(kept_here(cs));
    CHECK(registry::times(cs).hold.count == 0);
    {
      const section_guard timed = sync_wait(cs.lock());
    }
    CHECK(registry::times(cs).hold.count == 1);
    check_idle(cs, enough_bodies + 2);
  }

  TEST_CASE("kept guards: a close waits until it is unlocked") {
    for (const bool here : {true, false}) {
      CAPTURE(here);
      critical_section cs;
      section_guard guard = locked_where_kept(cs);
      manual_executor loop;
      async_scope scope({.executor = loop});
      bool closed = false;
      const auto closes = [&]() -> task<> {
        co_await cs.close();
        closed = true;
      };
      scope.spawn(closes());
      std::ignore = loop.run();
      CHECK_FALSE(closed);
      unlock(guard, here);
      while (!closed) std::ignore = loop.run();
      sync_wait(scope.join());
      CHECK_THROWS_AS(cs.execute_blocking(nothing), section_closed);
      CHECK(cs.statistics().executions == enough_bodies + 1);
    }
  }

  TEST_CASE("kept guards: the section may end as soon as it is unlocked, and another be there") {
    const endless_optimism kept_each_time;
    std::optional<critical_section> cs;
    for (int i = 0; i != 20; ++i) {
      cs.emplace();
      section_guard guard = locked_where_kept(*cs);
      if (i % 2 == 0) {
        guard.unlock();
      } else {
        elsewhere([&] { guard.unlock(); });
      }
      cs.reset();
    }
  }

  TEST_CASE("kept guards: a section that one is inside of is in use") {
    if (!can_be_kept()) return;
    const auto child = [] {
      auto cs = std::make_unique<critical_section>();
      const section_guard guard = locked_where_kept(*cs);
      cs.reset();
    };
    support::check_dies(child, "a guard is owned", "section #");
  }

  TEST_CASE("kept guards: from thread to thread, each of which keeps the section in between") {
    const endless_optimism kept_each_time;
    critical_section cs;
    section_guard guard;
    for (int i = 0; i != 10; ++i) {
      elsewhere([&] {
        guard.unlock();
        guard = locked_where_kept(cs);
      });
    }
    guard.unlock();
    check_idle(cs, 10 * (enough_bodies + 1));
  }

  TEST_CASE("kept guards: coroutines of a pool lock, go elsewhere with the guard, and unlock") {
    const endless_optimism kept_each_time;
    thread_pool a(1);
    thread_pool b(1);
    critical_section cs;
    async_scope scope({.executor = a});
    long n = 0;
    const auto lets_go = [&](section_guard& guard) -> task<> {
      ++n;
      guard.unlock();
      co_return;
    };
    const auto asks = [&](int at) -> task<> {
      for (int i = 0; i != 500; ++i) {
        section_guard guard = co_await cs.lock();
        ++n;
        if ((i + at) % 100 == 0) co_await schedule_on(b, lets_go(guard));
      }
    };
    for (int at = 0; at != 4; ++at) scope.spawn(asks(at));
    sync_wait(scope.join());
    CHECK(n == 4 * 505);
    check_idle(cs, 4 * 500);
  }
}
