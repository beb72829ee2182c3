// section_guard.cpp - lock, try_lock, and the guard they give.

#include "support/coroutine_types.hpp"
#include "support/foreign.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <cstdint>
#include <doctest/doctest.h>
#include <optional>
#include <stop_token>
#include <thread>
#include <type_traits>
#include <utility>

using namespace turnstile;
using support::foreign;

namespace {

foreign acquire(critical_section& cs, section_guard& into) { into = co_await cs.lock(); }

support::lazy<support::as_it_is> wait_in(critical_section& cs) {
  co_await cs.execute([] {});
}

task<section_guard> acquired(critical_section& cs) { co_return co_await cs.lock(); }

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("guard: is empty by default, and unlocking an empty one does nothing") {
    section_guard g;
    CHECK_FALSE(g.owns_lock());
    CHECK_FALSE(static_cast<bool>(g));
    g.unlock();
    g.detach();
    static_assert(!std::is_copy_constructible_v<section_guard>);
    static_assert(std::is_nothrow_move_constructible_v<section_guard>);
    static_assert(noexcept(g.unlock()));
  }

  TEST_CASE("guard: lock gives the section, unlock and the destructor give it back") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    CHECK(g.owns_lock());
    CHECK(static_cast<bool>(g));
    CHECK(cs.statistics().held);
    CHECK_FALSE(cs.try_lock().has_value());
    g.unlock();
    CHECK_FALSE(g.owns_lock());
    CHECK_FALSE(cs.statistics().held);
    {
      const section_guard again = sync_wait(cs.lock());
    }
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("guard: try_lock is empty when the section is not idle") {
    critical_section cs;
    std::optional<section_guard> first = cs.try_lock();
    REQUIRE(first.has_value());
    CHECK_FALSE(cs.try_lock().has_value());
    first->unlock();
    CHECK(cs.try_lock().has_value());
  }

  TEST_CASE("guard: moving hands the hold on") {
    critical_section cs;
    section_guard a = sync_wait(cs.lock());
    section_guard b = std::move(a);
    CHECK_FALSE(a.owns_lock());
    CHECK(b.owns_lock());
    section_guard c;
    c = std::move(b);
    CHECK_FALSE(b.owns_lock());
    CHECK(c.owns_lock());
    CHECK(cs.statistics().held);
  }

  TEST_CASE("guard: move assignment unlocks first") {
    critical_section one;
    critical_section two;
    section_guard a = sync_wait(one.lock());
    section_guard b = sync_wait(two.lock());
    a = std::move(b);
    CHECK_FALSE(one.statistics().held);
    CHECK(two.statistics().held);
    a = section_guard{};
    CHECK_FALSE(two.statistics().held);
  }

  TEST_CASE("guard: assigning it to itself changes nothing") {
    critical_section cs;
    section_guard a = sync_wait(cs.lock());
    section_guard& same = a;
    a = std::move(same);
    CHECK(a.owns_lock());
    CHECK(cs.statistics().held);
  }

  TEST_CASE("guard: may be unlocked on another thread") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    std::thread([&g] { g.unlock(); }).join();
    CHECK_FALSE(cs.statistics().held);
    CHECK(sync_wait(cs.execute([] { return 1; })) == 1);
  }

  TEST_CASE("guard: may be destroyed on another thread") {
    critical_section cs;
    std::thread([g = sync_wait(cs.lock())] { CHECK(g.owns_lock()); }).join();
    CHECK(sync_wait(cs.execute([] { return 1; })) == 1);
  }

  TEST_CASE("guard: unlocking serves those who wait, in order") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    section_guard first;
    section_guard second;
    const foreign a = acquire(cs, first);
    const foreign b = acquire(cs, second);
    busy.unlock();
    CHECK(first.owns_lock());
    CHECK_FALSE(second.owns_lock());
    first.unlock();
    CHECK(second.owns_lock());
    second.unlock();
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("guard: a task may return it") {
    critical_section cs;
    section_guard g = sync_wait(acquired(cs));
    CHECK(g.owns_lock());
    CHECK(cs.statistics().held);
  }

  TEST_CASE("guard: counts as one execution, at unlock") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    CHECK(cs.statistics().executions == 0);
    g.unlock();
    CHECK(cs.statistics().executions == 1);
  }

  TEST_CASE("guard: detached, it still owns the section") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    g.detach();
    CHECK(g.owns_lock());
    CHECK(cs.statistics().held);
    g.unlock();
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("guard: detached, the thread that locked may queue behind it") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    g.detach();
    bool over = false;
    const foreign f = support::await_in_foreign(cs.execute([] {}), over);
    CHECK_FALSE(over);
    g.unlock();
    CHECK(over);
  }

  TEST_CASE("lock: the guard's frame is no copy, although one has just ended here") {
    critical_section cs;
    critical_section other;
    manual_executor home;
    section_guard busy = support::hold(other);
    async_scope scope{{.executor = home}};
    const auto body = [&other] { return wait_in(other); };  // whose chain is copied for it
    scope.spawn(cs.execute(body));
    home.run();
    REQUIRE(cs.statistics().held);
    busy.unlock();
    while (cs.statistics().held) home.run();
    const section_guard g = cs.try_lock().value();
    REQUIRE(detail::is_hold(detail::here().chain));
    CHECK_FALSE(static_cast<const detail::hold_frame&>(*detail::here().chain).is_copy);
    sync_wait(scope.join());
  }

  TEST_CASE("lock: nothing is locked before it is awaited, and it may be moved until then") {
    critical_section cs;
    auto first = cs.lock();
    CHECK(cs.try_execute([] {}));
    auto second = std::move(first);
    const section_guard g = sync_wait(std::move(second));
    CHECK(g.owns_lock());
  }

  TEST_CASE(
      "lock: one that is refused leaves the guards alone that are held, whatever stood on them "
      "before") {
    critical_section outer;
    critical_section inner;
    sync_wait([](critical_section& o, critical_section& i) -> task<> {
      const section_guard held = co_await o.lock();
      const auto& frame = static_cast<const detail::hold_frame&>(*detail::here().chain);
      const std::uint32_t shares = frame.shares.load();
      static_cast<void>(co_await i.lock());
      std::stop_source stop;
      stop.request_stop();
      CHECK_THROWS_AS(co_await i.lock({.stop = stop.get_token()}), operation_cancelled);
      CHECK(detail::here().chain == &frame);
      CHECK(frame.shares.load() == shares);
      CHECK_THROWS_AS(co_await o.lock(), reentry_error);
    }(outer, inner));
    CHECK_FALSE(outer.statistics().held);
    CHECK_FALSE(inner.statistics().held);
  }
}
