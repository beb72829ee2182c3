// keeping.cpp - a section stays with the thread that keeps coming back to it, which nobody can tell
// but by the time it takes.
//
// Where nothing is ever kept (support::can_be_kept), all the same has to hold.

#include "support/keeping.hpp"

#include "support/counted.hpp"
#include "support/elsewhere.hpp"
#include "support/foreign.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/delegated_mutex.hpp>
#include <turnstile/manual_clock.hpp>
#include <turnstile/registry.hpp>
#include <turnstile/turnstile.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::can_be_kept;
using support::come_back_to;
using support::counted;
using support::elsewhere;
using support::endless_optimism;
using support::enough_bodies;
using support::hold;
using support::keeping_thread;
using support::kept_here;
using support::loop;
using support::wait_for_waiters;

namespace {

const auto nothing = [] {};

// `use` is done to a section that another thread keeps, which does not look at it meanwhile and
// comes back to it afterwards. `bodies` is how many executions that is.
template <class F>
void check_taken_by(std::uint64_t bodies, F use) {
  critical_section cs;
  int last = 0;
  keeping_thread keeper(cs, [&] { last = cs.execute_blocking([] { return 9; }); });
  CHECK(keeper.kept() == can_be_kept());
  use(cs);
  CHECK(cs.statistics().executions == enough_bodies + bodies);
  CHECK_FALSE(cs.statistics().held);
  CHECK(cs.statistics().waiters == 0);
  keeper.go_on();
  CHECK(last == 9);
  CHECK(cs.statistics().executions == enough_bodies + bodies + 1);
  CHECK_FALSE(cs.statistics().held);
}

// The same by the thread that keeps it.
template <class F>
void check_used_here(std::uint64_t bodies, F use) {
  critical_section cs;
  come_back_to(cs);
  CHECK(kept_here(cs) == can_be_kept());
  use(cs);
  CHECK(cs.statistics().executions == enough_bodies + bodies);
  CHECK_FALSE(cs.statistics().held);
  CHECK(cs.statistics().waiters == 0);
  CHECK(cs.execute_blocking([] { return 9; }) == 9);
  come_back_to(cs);
  CHECK(cs.statistics().executions == 2 * enough_bodies + bodies + 1);
}

template <class F>
void check_taken_and_used_here(std::uint64_t bodies, F use) {
  const endless_optimism kept_each_time;
  check_taken_by(bodies, use);
  check_used_here(bodies, use);
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE(
      "keeping: of all who come while a body runs the first one takes it away, and not each") {
    if (!can_be_kept()) return;
    critical_section cs;
    come_back_to(cs);
    detail::keeper& mine = *detail::here().keeps;
    async_scope scope;
    int ran = 0;
    const auto ask = [&]() -> task<> { co_await cs.execute([&] { ++ran; }); };
    cs.execute_blocking([&] {
      elsewhere([&] {
        const detail::keeper::sight seen = support::seen_by(mine, cs);
        CHECK(seen);
        scope.spawn(ask());
        CHECK_FALSE(detail::keeper::want(seen));
        scope.spawn(ask());
      });
    });
    CHECK_FALSE(kept_here(cs));
    CHECK(ran == 2);
    sync_wait(scope.join());
  }

  TEST_CASE("keeping: a section stays with who comes back to it, and not at once") {
    critical_section cs;
    int ran = 0;
    while (ran != 32) {
      cs.execute_blocking([&] { ++ran; });
      CHECK_FALSE(kept_here(cs));
    }
    while (ran != enough_bodies) cs.execute_blocking([&] { ++ran; });
    CHECK(kept_here(cs) == can_be_kept());
    for (int i = 0; i != 10'000; ++i) cs.execute_blocking([&] { ++ran; });
    CHECK(kept_here(cs) == can_be_kept());
    CHECK(ran == enough_bodies + 10'000);
  }

  TEST_CASE("keeping: not with who has others in between") {
    critical_section cs;
    bool ever = false;
    for (int round = 0; round != 12; ++round) {
      for (int i = 0; i != 20; ++i) {
        cs.execute_blocking(nothing);
        ever = ever || kept_here(cs);
      }
      elsewhere([&] { cs.execute_blocking(nothing); });
    }
    CHECK_FALSE(ever);
    CHECK(cs.statistics().executions == 12 * 21);
  }

  TEST_CASE("keeping: not with who is at several sections by turns") {
    critical_section a;
    critical_section b;
    bool ever = false;
    for (int i = 0; i != 500; ++i) {
      a.execute_blocking(nothing);
      b.execute_blocking(nothing);
      ever = ever || kept_here(a) || kept_here(b);
    }
    CHECK_FALSE(ever);
  }

  TEST_CASE("keeping: goes from one section to the next with the thread") {
    const endless_optimism kept_each_time;
    critical_section a;
    critical_section b;
    for (int i = 0; i != 5; ++i) {
      come_back_to(a);
      CHECK(kept_here(a) == can_be_kept());
      come_back_to(b);
      CHECK(kept_here(b) == can_be_kept());
      CHECK_FALSE(kept_here(a));
    }
    CHECK(a.statistics().executions == 5 * enough_bodies);
    CHECK(b.statistics().executions == 5 * enough_bodies);
    elsewhere([&] { CHECK(a.try_execute(nothing)); });
    elsewhere([&] { CHECK(b.try_execute(nothing)); });
  }

  TEST_CASE("keeping: not while it is off") {
    critical_section cs;
    {
      const support::never_kept off;
      come_back_to(cs);
      come_back_to(cs);
      CHECK_FALSE(kept_here(cs));
    }
    come_back_to(cs);
    CHECK(kept_here(cs) == can_be_kept());
  }

  TEST_CASE("keeping: what was taken away too soon is kept later the next time") {
    if (!can_be_kept()) return;
    critical_section cs;
    come_back_to(cs);
    CHECK(kept_here(cs));
    elsewhere([&] { cs.execute_blocking(nothing); });
    CHECK_FALSE(kept_here(cs));
    come_back_to(cs);
    CHECK_FALSE(kept_here(cs));
    come_back_to(cs);
    CHECK(kept_here(cs));
  }

  TEST_CASE("keeping: gives back what the body returns, and throws what it throws") {
    critical_section cs;
    come_back_to(cs);
    int x = 1;
    CHECK(cs.execute_blocking([] { return 4; }) == 4);
    CHECK(&cs.execute_blocking([&]() -> int& { return x; }) == &x);
    CHECK(*cs.execute_blocking([] { return std::make_unique<int>(6); }) == 6);
    cs.execute_blocking([&] { x = 2; });
    CHECK(x == 2);
    CHECK(cs.execute_blocking([c = counted(5)] { return counted(c.value + 1); }).value == 6);
    CHECK(counted::alive() == 0);
    CHECK_THROWS_WITH_AS(cs.execute_blocking([]() -> int { throw std::runtime_error("x"); }), "x",
                         std::runtime_error);
    CHECK_THROWS_WITH_AS(cs.execute_blocking([] { throw std::runtime_error("y"); }), "y",
                         std::runtime_error);
    CHECK(cs.execute_blocking([] { return std::this_thread::get_id(); }) ==
          std::this_thread::get_id());
    CHECK(kept_here(cs) == can_be_kept());
    CHECK(cs.statistics().executions == enough_bodies + 8);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("keeping: the same in a coroutine") {
    critical_section cs;
    const auto come_back = [&]() -> task<int> {
      int n = 0;
      auto counts = [&n] { ++n; };
      for (int i = 0; i != enough_bodies; ++i) co_await cs.execute(counts);
      CHECK(kept_here(cs) == can_be_kept());
      auto gives = [] { return std::make_unique<int>(6); };
      CHECK(*co_await cs.execute(gives) == 6);
      auto refers = [&n]() -> int& { return n; };
      CHECK(&co_await cs.execute(refers) == &n);
      auto throws = []() -> int { throw std::runtime_error("x"); };
      int failed = 0;
      for (int i = 0; i != 40; ++i) {
        try {
          co_await cs.execute(throws);
        } catch (const std::runtime_error&) {
          ++failed;
        }
      }
      CHECK(failed == 40);
      CHECK(kept_here(cs) == can_be_kept());
      co_return n;
    };
    CHECK(sync_wait(come_back()) == enough_bodies);
    CHECK(cs.statistics().executions == enough_bodies + 42);
  }

  TEST_CASE("keeping: a kept section is held only while a body runs, nobody has waited") {
    critical_section cs("kept");
    keeping_thread keeper(cs);
    const auto check_idle = [&](const section_statistics& s) {
      CHECK(s.executions == enough_bodies);
      CHECK_FALSE(s.held);
      CHECK(s.waiters == 0);
      CHECK(s.most_waiters == 0);
      CHECK(s.refused == 0);
      CHECK(s.withdrawn == 0);
    };
    check_idle(cs.statistics());
    bool found = false;
    for (const section_record& r : registry::sections()) {
      if (r.name != "kept") continue;
      found = true;
      check_idle(r.statistics);
    }
    CHECK(found);
    keeper.go_on();

    critical_section mine;
    come_back_to(mine);
    check_idle(mine.statistics());
    const section_statistics inside = mine.execute_blocking([&] { return mine.statistics(); });
    CHECK(inside.held);
    CHECK(inside.waiters == 0);
    CHECK(inside.executions == enough_bodies);
    CHECK_FALSE(mine.statistics().held);
  }

  TEST_CASE("keeping: execute_blocking of another thread takes it away") {
    check_taken_by(2, [](critical_section& cs) {
      CHECK(cs.execute_blocking([] { return 4; }) == 4);
      CHECK_THROWS_AS(cs.execute_blocking([]() -> int { throw std::runtime_error("x"); }),
                      std::runtime_error);
    });
  }

  TEST_CASE("keeping: what a kept body wrote is seen by whoever takes it away") {
    critical_section cs;
    int n = 0;
    std::latch there(1);
    std::latch over(1);
    std::thread keeper([&] {
      for (int i = 0; i != 1000; ++i) cs.execute_blocking([&] { ++n; });
      there.count_down();
      over.wait();
    });
    there.wait();
    CHECK(cs.execute_blocking([&] { return ++n; }) == 1001);
    over.count_down();
    keeper.join();
  }

  TEST_CASE("keeping: a coroutine") {
    check_taken_and_used_here(3, [](critical_section& cs) {
      const auto ask = [&]() -> task<int> {
        auto one = [] { return 1; };
        const int n = co_await cs.execute(one);
        auto waits = []() -> task<int> {
          co_await yield();
          co_return 2;
        };
        const int m = co_await cs.execute(waits);
        co_return n + m + co_await cs.execute(one);
      };
      CHECK(sync_wait(ask()) == 4);
    });
  }

  TEST_CASE("keeping: a body that waits, for a plain thread") {
    check_taken_and_used_here(1, [](critical_section& cs) {
      CHECK(cs.execute_blocking([]() -> task<int> {
        co_await yield();
        co_return 2;
      }) == 2);
    });
  }

  TEST_CASE("keeping: a coroutine on a pool") {
    thread_pool pool(1);
    check_taken_and_used_here(1, [&](critical_section& cs) {
      auto body = [] { return 5; };
      CHECK(sync_wait(schedule_on(pool, cs.execute(body))) == 5);
    });
  }

  TEST_CASE("keeping: lock") {
    check_taken_and_used_here(1, [](critical_section& cs) {
      const auto ask = [&]() -> task<> {
        const section_guard g = co_await cs.lock();
        CHECK(g.owns_lock());
        CHECK(cs.statistics().held);
        CHECK(cs.statistics().waiters == 0);
        CHECK_FALSE(cs.try_lock());
      };
      sync_wait(ask());
    });
  }

  TEST_CASE("keeping: try_lock") {
    check_taken_and_used_here(1, [](critical_section& cs) {
      std::optional<section_guard> g = cs.try_lock();
      REQUIRE(g.has_value());
      CHECK(cs.statistics().held);
      CHECK_THROWS_AS(cs.execute_blocking(nothing), reentry_error);
      elsewhere([&] { CHECK_FALSE(cs.try_execute(nothing)); });
    });
  }

  TEST_CASE("keeping: try_execute") {
    check_taken_and_used_here(3, [](critical_section& cs) {
      CHECK(cs.try_execute([] { return 7; }) == 7);
      CHECK(cs.try_execute(nothing));
      CHECK_THROWS_AS(cs.try_execute([]() -> int { throw std::runtime_error("x"); }),
                      std::runtime_error);
    });
  }

  TEST_CASE("keeping: post and submit") {
    check_taken_and_used_here(2, [](critical_section& cs) {
      std::latch ran(1);
      std::thread::id ran_on;
      cs.post([&] {
        ran_on = std::this_thread::get_id();
        ran.count_down();
      });
      ran.wait();
      CHECK(ran_on != std::this_thread::get_id());
      CHECK(sync_wait(cs.submit([] { return 3; })) == 3);
      // Who ran it leaves the section after it has said so.
      while (cs.statistics().held) std::this_thread::yield();
    });
  }

  TEST_CASE("keeping: execute_when") {
    check_taken_and_used_here(2, [](critical_section& cs) {
      bool ready = false;
      const auto is_ready = [&] { return ready; };
      const auto ask = [&]() -> task<int> {
        auto body = [] { return 8; };
        co_return co_await cs.execute_when(is_ready, body);
      };
      int got = 0;
      async_scope scope;
      scope.spawn([](task<int> t, int& to) -> task<> { to = co_await std::move(t); }(ask(), got));
      CHECK(cs.statistics().waiters == 1);
      CHECK(got == 0);
      cs.execute_blocking([&] { ready = true; });
      sync_wait(scope.join());
      CHECK(got == 8);
    });
  }

  TEST_CASE("keeping: several sections") {
    check_taken_and_used_here(1, [](critical_section& cs) {
      critical_section other;
      auto body = [] { return 6; };
      CHECK(sync_wait(turnstile::execute(std::tie(cs, other), body)) == 6);
      CHECK(other.statistics().executions == 1);
    });
  }

  TEST_CASE("keeping: a delegated_mutex") {
    check_taken_and_used_here(1, [](critical_section& cs) {
      delegated_mutex m(cs);
      const std::scoped_lock lock(m);
      CHECK(cs.statistics().held);
    });
  }

  TEST_CASE("keeping: a device execution") {
    check_taken_and_used_here(1, [](critical_section& cs) {
      int done = 0;
      CHECK(cs.execute_blocking([&](stream& s) {
        s.enqueue([&] { done = 1; });
        return 3;
      }) == 3);
      CHECK(done == 1);
      while (cs.statistics().held) std::this_thread::yield();
    });
  }

  TEST_CASE("keeping: close by another thread refuses the one that kept it") {
    critical_section cs;
    bool refused = false;
    keeping_thread keeper(cs, [&] {
      try {
        cs.execute_blocking(nothing);
      } catch (const section_closed&) {
        refused = true;
      }
    });
    sync_wait(cs.close());
    CHECK_THROWS_AS(cs.execute_blocking(nothing), section_closed);
    keeper.go_on();
    CHECK(refused);
    CHECK(cs.statistics().executions == enough_bodies);
    CHECK(cs.statistics().refused == 2);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("keeping: close by the thread that keeps it") {
    critical_section cs;
    come_back_to(cs);
    sync_wait(cs.close());
    CHECK_THROWS_AS(cs.execute_blocking(nothing), section_closed);
    CHECK_THROWS_AS(cs.try_execute(nothing), section_closed);
    CHECK_FALSE(cs.statistics().held);
    critical_section inside;
    come_back_to(inside);
    CHECK_THROWS_AS(inside.execute_blocking([&] { sync_wait(inside.close()); }), reentry_error);
    CHECK(inside.execute_blocking([] { return 1; }) == 1);
  }

  TEST_CASE("keeping: what a kept body posts to its own section runs after it") {
    critical_section cs;
    come_back_to(cs);
    std::vector<int> order;
    std::optional<execution_handle<void>> second;
    cs.execute_blocking([&] {
      cs.post([&] { order.push_back(2); });
      second = cs.submit([&] { order.push_back(3); });
      CHECK(cs.statistics().waiters == 2);
      order.push_back(1);
    });
    sync_wait(std::move(*second));
    CHECK(cs.execute_blocking([&] { return order; }) == std::vector<int>{1, 2, 3});
    CHECK(cs.statistics().executions == enough_bodies + 4);
  }

  TEST_CASE("keeping: re-entry is refused inside a kept body") {
    const endless_optimism kept_each_time;
    critical_section cs{"kept"};
    critical_section other{"other"};
    const auto is_kept = [&] {
      come_back_to(cs);
      return kept_here(cs) == can_be_kept();
    };
    CHECK(is_kept());
    CHECK_THROWS_AS(cs.execute_blocking([&] { cs.execute_blocking(nothing); }), reentry_error);
    CHECK(is_kept());
    try {
      cs.execute_blocking([&] { other.execute_blocking([&] { cs.execute_blocking(nothing); }); });
      FAIL("it was let in");
    } catch (const reentry_error& e) {
      REQUIRE(e.path().size() == 3);
      CHECK(e.path()[0].section == "kept");
      CHECK(e.path()[1].section == "other");
      CHECK(e.path()[2].section == "kept");
    }
    CHECK(is_kept());
    CHECK_THROWS_AS(cs.execute_blocking([&] { sync_wait(cs.execute(nothing)); }), reentry_error);
    CHECK(is_kept());
    CHECK_THROWS_AS(cs.execute_blocking([&] { const section_guard never = sync_wait(cs.lock()); }),
                    reentry_error);
    CHECK(is_kept());
    cs.execute_blocking([&] {
      CHECK_FALSE(cs.try_execute(nothing));
      CHECK_FALSE(cs.try_lock().has_value());
    });
    CHECK(cs.statistics().refused == 4);
    CHECK(cs.execute_blocking([] { return 1; }) == 1);
    CHECK_FALSE(cs.statistics().held);
    elsewhere([&] { CHECK(cs.try_execute(nothing)); });
  }

  TEST_CASE("keeping: other sections inside a kept body, and the kept one inside other bodies") {
    critical_section a;
    critical_section b;
    come_back_to(a);
    int both = 0;
    for (int i = 0; i != 300; ++i) {
      both += a.execute_blocking([&] { return b.execute_blocking([] { return 1; }) + 1; });
    }
    CHECK(both == 600);
    CHECK_FALSE(kept_here(b));
    CHECK(kept_here(a) == can_be_kept());
    for (int i = 0; i != 20; ++i) {
      both += b.execute_blocking([&] { return a.execute_blocking([] { return 1; }) + 1; });
    }
    CHECK(both == 640);
    CHECK(a.statistics().executions == enough_bodies + 320);
    CHECK(b.statistics().executions == 320);
    elsewhere([&] {
      CHECK(a.try_execute(nothing));
      CHECK(b.try_execute(nothing));
    });
  }

  TEST_CASE("keeping: is not holding, for whoever waits") {
    critical_section a;
    critical_section b;
    int got = 0;
    keeping_thread keeper(a, [&] { got = b.execute_blocking([] { return 2; }); });
    std::optional<section_guard> mine = b.try_lock();
    keeper.tell();
    wait_for_waiters(b, 1);
    CHECK(a.execute_blocking([] { return 1; }) == 1);
    mine->unlock();
    keeper.join();
    CHECK(got == 2);
  }

  TEST_CASE("keeping: a cycle through a body of a kept section is still found") {
    critical_section a{"a"};
    critical_section b{"b"};
    std::latch both_in(2);
    const auto cross = [&](critical_section& first, critical_section& second) {
      try {
        first.execute_blocking([&] {
          both_in.arrive_and_wait();
          second.execute_blocking(nothing);
        });
      } catch (const deadlock_error&) {
        return 1;
      }
      return 0;
    };
    int refused = 0;
    keeping_thread keeper(a, [&] { refused = cross(a, b); });
    come_back_to(b);
    keeper.tell();
    const int here = cross(b, a);
    keeper.join();
    CHECK(refused + here >= 1);
    CHECK(a.execute_blocking([] { return 1; }) == 1);
    CHECK(b.execute_blocking([] { return 1; }) == 1);
  }

  TEST_CASE("keeping: executions are recorded from the moment on that somebody wants that") {
    critical_section mine{"mine"};
    critical_section theirs{"theirs"};
    keeping_thread keeper(theirs, [&] { theirs.execute_blocking(nothing, {.name = "late"}); });
    come_back_to(mine);
    registry::keep_executions(8);
    mine.execute_blocking(nothing, {.name = "here"});
    keeper.go_on();
    const std::vector<execution_record> all = registry::executions();
    come_back_to(mine);
    const bool kept = kept_here(mine);
    registry::keep_executions(0);
    REQUIRE(all.size() == 2);
    CHECK(all[0].name == "here");
    CHECK(all[0].section == "mine");
    CHECK(all[1].name == "late");
    CHECK(all[1].section == "theirs");
    CHECK_FALSE(kept);
  }

  TEST_CASE("keeping: times are taken from the moment on that somebody wants that") {
    critical_section mine;
    critical_section theirs;
    keeping_thread keeper(theirs, [&] { theirs.execute_blocking(nothing); });
    come_back_to(mine);
    registry::keep_times(mine);
    registry::keep_times(theirs);
    mine.execute_blocking(nothing);
    mine.execute_blocking(nothing);
    keeper.go_on();
    CHECK(registry::times(mine).hold.count == 2);
    CHECK(registry::times(theirs).hold.count == 1);
  }

  TEST_CASE("keeping: a record that is wanted while a kept body runs") {
    critical_section cs{"kept"};
    come_back_to(cs);
    cs.execute_blocking([] { registry::keep_executions(8); }, {.name = "first"});
    cs.execute_blocking(nothing, {.name = "second"});
    const std::vector<execution_record> all = registry::executions();
    registry::keep_executions(0);
    REQUIRE(all.size() == 1);
    CHECK(all[0].name == "second");
  }

  TEST_CASE(
      "keeping: a section may end while another thread keeps it, and another be in its place") {
    alignas(critical_section) std::array<std::byte, sizeof(critical_section)> room;
    auto* cs = ::new (room.data()) critical_section;
    std::uint64_t before = 1;
    int ran = 0;
    keeping_thread keeper(*cs, [&] {
      before = cs->statistics().executions;
      for (int i = 0; i != 2 * enough_bodies; ++i) cs->execute_blocking([&] { ++ran; });
    });
    cs->~critical_section();
    cs = ::new (room.data()) critical_section;
    keeper.go_on();
    CHECK(before == 0);
    CHECK(ran == 2 * enough_bodies);
    CHECK(cs->statistics().executions == 2 * enough_bodies);
    CHECK(cs->execute_blocking([] { return 1; }) == 1);
    cs->~critical_section();
  }

  TEST_CASE("keeping: a section is busy, and another is in the place of the kept one") {
    alignas(critical_section) std::array<std::byte, sizeof(critical_section)> room;
    auto* cs = ::new (room.data()) critical_section;
    std::vector<int> order;
    keeping_thread keeper(*cs, [&] { cs->execute_blocking([&] { order.push_back(2); }); });
    cs->~critical_section();
    cs = ::new (room.data()) critical_section;
    section_guard busy = hold(*cs);
    keeper.tell();
    wait_for_waiters(*cs, 1);
    order.push_back(1);
    busy.unlock();
    keeper.join();
    CHECK(order == std::vector<int>{1, 2});
    cs->~critical_section();
  }

  TEST_CASE("keeping: a section may end by the thread that keeps it, again and again") {
    const endless_optimism kept_each_time;
    for (int i = 0; i != 20; ++i) {
      std::optional<critical_section> cs;
      for (int at_the_same_place = 0; at_the_same_place != 3; ++at_the_same_place) {
        cs.emplace();
        come_back_to(*cs);
        CHECK(kept_here(*cs) == can_be_kept());
        CHECK(cs->statistics().executions == enough_bodies);
      }
      cs.reset();
    }
  }

  TEST_CASE("keeping: a kept section with a body inside is in use") {
    critical_section cs;
    come_back_to(cs);
    cs.execute_blocking([&] {
      CHECK(cs.statistics().held);
      elsewhere([&] {
        CHECK(cs.statistics().held);
        CHECK_FALSE(cs.try_execute(nothing));
        CHECK_FALSE(cs.try_lock().has_value());
      });
    });
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.try_execute(nothing));
  }

  TEST_CASE("keeping: a thread may end that keeps a section") {
    critical_section cs;
    bool kept = false;
    elsewhere([&] {
      come_back_to(cs);
      kept = kept_here(cs);
    });
    CHECK(kept == can_be_kept());
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.execute_blocking([] { return 1; }) == 1);
    come_back_to(cs);
    CHECK(cs.statistics().executions == 2 * enough_bodies + 1);

    auto ends = std::make_unique<critical_section>();
    elsewhere([&] { come_back_to(*ends); });
    ends.reset();
  }

  TEST_CASE("keeping: what a thread kept that has ended is another one's") {
    critical_section cs;
    critical_section other;
    const detail::keeper* first = nullptr;
    const detail::keeper* second = nullptr;
    bool kept = false;
    int got = 0;
    elsewhere([&] {
      come_back_to(cs);
      first = detail::here().keeps;
    });
    elsewhere([&] {
      for (int i = 0; i != 32; ++i) other.execute_blocking(nothing);
      second = detail::here().keeps;
      kept = kept_here(cs);
      for (int i = 0; i != 10; ++i) got += cs.execute_blocking([] { return 1; });
      come_back_to(other);
      CHECK(kept_here(other) == can_be_kept());
    });
    CHECK(first == second);
    CHECK(kept == can_be_kept());
    CHECK(got == 10);
    CHECK(cs.statistics().executions == enough_bodies + 10);
    CHECK(cs.try_execute(nothing));
    CHECK(other.try_execute(nothing));
  }

  TEST_CASE("keeping: many threads, one after the other") {
    const endless_optimism kept_each_time;
    critical_section cs;
    int kept = 0;
    for (int i = 0; i != 20; ++i) {
      elsewhere([&] {
        come_back_to(cs);
        if (kept_here(cs)) ++kept;
      });
    }
    CHECK(kept == (can_be_kept() ? 20 : 0));
    CHECK(cs.statistics().executions == 20 * enough_bodies);
  }

  TEST_CASE("keeping: sections whose waiters are limited are not kept") {
    critical_section cs({.max_waiters = 1});
    come_back_to(cs);
    come_back_to(cs);
    CHECK_FALSE(kept_here(cs));
  }

  TEST_CASE("keeping: sections that are bound to an executor are not kept, at home neither") {
    loop home;
    critical_section cs{section_options{.executor = home}};
    bool kept = true;
    support::run_on(home, [&] {
      come_back_to(cs);
      come_back_to(cs);
      kept = kept_here(cs);
    });
    CHECK_FALSE(kept);
    auto at_home = [&] { return home.here(); };
    auto elsewhere_no_more = cs.submit(at_home);
    CHECK_FALSE(elsewhere_no_more.ready());
    home.run();
    CHECK(sync_wait(std::move(elsewhere_no_more)));
    CHECK(cs.statistics().executions == 2 * enough_bodies + 1);
  }

  TEST_CASE("keeping: a stop and a deadline of requests for the kept section") {
    manual_clock clock;
    const endless_optimism kept_each_time;
    critical_section cs;
    come_back_to(cs);
    std::stop_source stop;
    CHECK(cs.execute_blocking([] { return 1; }, {.stop = stop.get_token()}) == 1);
    CHECK(cs.execute_blocking([] { return 2; }, {.deadline = clock.now() + 1ms}) == 2);
    come_back_to(cs);
    CHECK(kept_here(cs) == can_be_kept());
    stop.request_stop();
    CHECK_THROWS_AS(cs.execute_blocking(nothing, {.stop = stop.get_token()}), operation_cancelled);
    CHECK_THROWS_AS(cs.execute_blocking(nothing, {.deadline = clock.now() - 1ms}),
                    deadline_exceeded);
    CHECK(cs.execute_blocking([] { return 3; }) == 3);
    CHECK(cs.statistics().withdrawn == 2);
    CHECK(cs.statistics().executions == 2 * enough_bodies + 3);
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("keeping: a stop and a deadline of who waits for a kept body") {
    manual_clock clock;
    critical_section cs;
    come_back_to(cs);
    std::stop_source stop;
    bool ran = false;
    std::string how_stopped;
    std::string how_late;
    cs.execute_blocking([&] {
      std::thread stopped([&] {
        try {
          cs.execute_blocking([&] { ran = true; }, {.stop = stop.get_token()});
        } catch (const operation_cancelled&) {
          how_stopped = "cancelled";
        }
      });
      wait_for_waiters(cs, 1);
      std::thread late([&] {
        try {
          cs.execute_blocking([&] { ran = true; }, {.deadline = clock.now() + 1ms});
        } catch (const deadline_exceeded&) {
          how_late = "expired";
        }
      });
      wait_for_waiters(cs, 2);
      stop.request_stop();
      stopped.join();
      while (clock.pending() == 0) std::this_thread::yield();
      clock.advance(1ms);
      late.join();
      CHECK(cs.statistics().held);
    });
    CHECK(how_stopped == "cancelled");
    CHECK(how_late == "expired");
    CHECK_FALSE(ran);
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.execute_blocking([] { return 3; }) == 3);
    CHECK(cs.statistics().withdrawn == 2);
  }

  TEST_CASE("keeping: resume_on is where the coroutine goes on") {
    critical_section cs;
    come_back_to(cs);
    loop gui;
    bool right_place = false;
    bool ran_there = true;
    async_scope scope;
    const auto ask = [&]() -> task<> {
      auto body = [&] { ran_there = gui.here(); };
      co_await cs.execute(body, {.resume_on = gui});
      right_place = gui.here();
    };
    scope.spawn(ask());
    CHECK(gui.pending() == 1);
    CHECK_FALSE(cs.statistics().held);
    gui.run();
    sync_wait(scope.join());
    CHECK(right_place);
    CHECK_FALSE(ran_there);
    CHECK(cs.execute_blocking([] { return 1; }, {.resume_on = gui}) == 1);
    CHECK(cs.statistics().executions == enough_bodies + 2);
  }

  TEST_CASE("keeping: claims what a request uses, and is refused what others have claimed") {
    critical_section cs;
    critical_section other;
    resource r{"account"};
    resource taken{"taken"};
    other.execute_blocking(nothing, {.uses = taken});
    come_back_to(cs);
    for (int i = 0; i != 100; ++i) cs.execute_blocking(nothing, {.uses = r});
    CHECK_THROWS_AS(other.execute_blocking(nothing, {.uses = r}), exclusive_access_error);
    bool ran = false;
    CHECK_THROWS_AS(cs.execute_blocking([&] { ran = true; }, {.uses = taken}),
                    exclusive_access_error);
    CHECK_FALSE(ran);
    CHECK(cs.execute_blocking([] { return 1; }) == 1);
    CHECK(cs.statistics().executions == enough_bodies + 101);
    CHECK(cs.statistics().refused == 1);
  }

  TEST_CASE("keeping: a variable that a kept body touches is the section's") {
    critical_section cs;
    critical_section other;
    variable<int> v(1, "v");
    come_back_to(cs);
    cs.execute_blocking([&] { static_cast<void>(v.assign(2)); });
    CHECK_THROWS_AS(other.execute_blocking([&] { static_cast<void>(v.assign(3)); }),
                    exclusive_access_error);
    CHECK(cs.execute_blocking([&] { return *v.read(); }) == 2);
  }

  TEST_CASE("keeping: who is queued behind a kept body is served in order, its thread behind") {
    critical_section cs;
    std::vector<int> order;
    std::latch inside(1);
    std::latch goes_on(1);
    keeping_thread keeper(cs, [&] {
      cs.execute_blocking([&] {
        inside.count_down();
        goes_on.wait();
        order.push_back(0);
        cs.post([&] { order.push_back(6); });
      });
      cs.execute_blocking([&] { order.push_back(7); });
    });
    CHECK(keeper.kept() == can_be_kept());
    keeper.tell();
    inside.wait();
    CHECK(cs.statistics().held);
    std::vector<std::thread> threads;
    async_scope scope;
    const auto ask = [&](int i) -> task<> {
      auto body = [&order, i] { order.push_back(i); };
      co_await cs.execute(body);
    };
    for (std::size_t i = 1; i != 5; i += 2) {
      threads.emplace_back(
          [&, i] { cs.execute_blocking([&] { order.push_back(static_cast<int>(i)); }); });
      wait_for_waiters(cs, i);
      scope.spawn(ask(static_cast<int>(i) + 1));
      CHECK(cs.statistics().waiters == i + 1);
    }
    cs.post([&] { order.push_back(5); });
    CHECK(cs.statistics().waiters == 5);
    CHECK(cs.statistics().most_waiters == 5);
    goes_on.count_down();
    for (std::thread& t : threads) t.join();
    sync_wait(scope.join());
    keeper.join();
    CHECK(cs.execute_blocking([&] { return order; }) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
    CHECK(cs.statistics().executions == enough_bodies + 9);
  }

  TEST_CASE("keeping: its thread waits behind who has taken the section away") {
    critical_section cs;
    std::vector<int> order;
    keeping_thread keeper(cs, [&] { cs.execute_blocking([&] { order.push_back(2); }); });
    section_guard busy = hold(cs);
    keeper.tell();
    wait_for_waiters(cs, 1);
    cs.post([&] { order.push_back(3); });
    order.push_back(1);
    busy.unlock();
    keeper.join();
    CHECK(cs.execute_blocking([&] { return order; }) == std::vector<int>{1, 2, 3});
  }

  TEST_CASE("keeping: a gap in the line of a kept body does not lose the section") {
    const endless_optimism kept_each_time;
    critical_section cs;
    for (int i = 0; i != 30; ++i) {
      come_back_to(cs);
      CHECK(kept_here(cs) == can_be_kept());
      int n = 0;
      std::vector<std::thread> threads;
      cs.execute_blocking([&] {
        for (int t = 0; t != 3; ++t) {
          threads.emplace_back([&] { cs.execute_blocking([&] { ++n; }); });
        }
      });
      for (std::thread& t : threads) t.join();
      CHECK(n == 3);
    }
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("keeping: guards that a kept body leaves behind are the thread's") {
    critical_section cs;
    critical_section other;
    come_back_to(cs);
    section_guard guard;
    cs.execute_blocking([&] { guard = std::move(other.try_lock().value()); });
    CHECK_THROWS_AS(other.execute_blocking(nothing), reentry_error);
    guard.unlock();
    other.execute_blocking(nothing);
    CHECK(kept_here(cs) == can_be_kept());
  }

  TEST_CASE("keeping: synchronized data") {
    synchronized<int> n(0);
    for (int i = 0; i != 1000; ++i) n.execute_blocking([](int& v) { ++v; });
    CHECK(kept_here(n.section()) == can_be_kept());
    elsewhere([&] { n.execute_blocking([](int& v) { v += 5; }); });
    CHECK(n.execute_blocking([](int& v) { return v; }) == 1005);
  }

  TEST_CASE("keeping: to whoever asks it is idle, in whatever way") {
    const endless_optimism kept_each_time;
    loop there;
    // `ask` gives what is awaited, which calls what it is given with the section held.
    const auto runs_at_once = [&](critical_section& cs, auto ask) {
      bool ran = false;
      bool over = false;
      const auto body = [&ran] { ran = true; };
      const support::foreign waits = support::await_in_foreign(ask(cs, body), over);
      CHECK(ran);
      there.run();
      CHECK(over);
    };
    const auto check = [&](auto ask) {
      critical_section theirs;
      const keeping_thread keeper(theirs);
      CHECK(keeper.kept() == can_be_kept());
      runs_at_once(theirs, ask);
      critical_section ours;
      loop home;
      support::run_on(home, [&] {
        come_back_to(ours);
        CHECK(kept_here(ours) == can_be_kept());
        runs_at_once(ours, ask);
      });
    };

    const std::stop_source source;
    const std::stop_token token = source.get_token();
    critical_section other;
    check([](auto& cs, auto& body) { return cs.execute(body); });
    check([&](auto& cs, auto& body) { return cs.execute(body, {.stop = token}); });
    check([&](auto& cs, auto& body) { return cs.execute(body, {.resume_on = there}); });
    check([&](auto& cs, auto& body) {
      return cs.execute(body, {.stop = token, .resume_on = there});
    });
    const auto within_task = [](auto& body) { return [&body]() -> task<> { co_return body(); }; };
    check([&](auto& cs, auto& body) { return cs.execute(within_task(body)); });
    check([&](auto& cs, auto& body) { return cs.execute(within_task(body), {.stop = token}); });
    check([&](auto& cs, auto& body) { return cs.execute_when([] { return true; }, body); });
    check([&](auto& cs, auto& body) {
      return cs.execute_when([] { return true; }, body, {.stop = token});
    });
    check([&](auto& cs, auto& body) { return turnstile::execute(std::tie(cs, other), body); });
    check([&](auto& cs, auto& body) {
      return turnstile::execute(std::tie(cs, other), body, {.stop = token});
    });
    const auto lock = [](critical_section& cs, auto& body, execute_options o) -> task<> {
      const section_guard g = co_await cs.lock(o);
      body();
    };
    check([&](auto& cs, auto& body) { return lock(cs, body, {}); });
    check([&](auto& cs, auto& body) { return lock(cs, body, {.stop = token}); });
    check([](auto& cs, auto& body) {
      const auto ask = [](critical_section& cs, auto& body) -> task<> {
        co_await cs.execute(body);
      };
      return timeout(ask(cs, body), 1h);
    });
  }
}
