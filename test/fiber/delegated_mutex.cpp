// delegated_mutex.cpp - a section behind std::scoped_lock: in fibers, and on plain threads.

#include "support/dies.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <doctest/doctest.h>
#include <latch>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::gate;
using support::loop;

namespace {

fiber_options named(std::string_view name) { return {.name = name}; }

}  // namespace

TEST_SUITE("fiber") {
  TEST_CASE("delegated_mutex: a fiber that finds the section idle stays where it is") {
    loop on;
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    auto f = spawn_fiber(on, [&] {
      const std::scoped_lock lock(m);
      CHECK(on.here());
      CHECK(cs.statistics().held);
      CHECK_THROWS_AS(turnstile::await(cs.execute([] {})), reentry_error);
      CHECK_THROWS_AS(m.lock(), reentry_error);
      CHECK_FALSE(m.try_lock());
    });
    on.run();
    sync_wait(std::move(f));
    CHECK(cs.statistics().executions == 1);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("delegated_mutex: the order in which a plain thread locks them is looked at") {
    static int told = 0;
    told = 0;
    registry::check_lock_order([](const lock_order_report&) { ++told; });
    {
      critical_section a{"a"};
      critical_section b{"b"};
      delegated_mutex ma{a};
      delegated_mutex mb{b};
      const auto lock = [](delegated_mutex& outer, delegated_mutex& inner) {
        const std::scoped_lock first(outer);
        const std::scoped_lock second(inner);
      };
      lock(ma, mb);
      CHECK(told == 0);
      lock(mb, ma);
      CHECK(told == 1);
    }
    registry::check_lock_order(nullptr);
  }

  TEST_CASE(
      "delegated_mutex: else its code runs where the section is served, and the fiber goes home") {
    loop home;
    loop server;
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    std::vector<int> list;
    std::optional<section_guard> busy = support::hold(cs);
    auto f = spawn_fiber(home, [&] {
      {
        const std::scoped_lock lock(m);
        list.push_back(server.here() ? 1 : -1);
        CHECK(in_fiber());
        CHECK_THROWS_AS(turnstile::await(cs.execute([] {})), reentry_error);
      }
      list.push_back(home.here() ? 2 : -2);
    });
    home.run();
    auto serves = spawn_fiber(server, [&] {
      busy.reset();
      CHECK_FALSE(cs.statistics().held);
      list.push_back(3);
    });
    server.run();
    CHECK(list == std::vector<int>{1, 3});
    home.run();
    CHECK(list == std::vector<int>{1, 3, 2});
    sync_wait(when_all(std::move(f), std::move(serves)));
    CHECK(cs.statistics().executions == 2);
  }

  TEST_CASE("delegated_mutex: in line with other requests, in order") {
    loop on;
    critical_section cs;
    delegated_mutex m{cs};
    std::vector<int> list;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = on}};
    const auto ask = [&](int n) -> task<> { co_await cs.execute([&, n] { list.push_back(n); }); };
    const auto lock_it = [&](int n) {
      const std::scoped_lock lock(m);
      list.push_back(n);
    };
    scope.spawn(ask(1));
    spawn_fiber(on, [&] { lock_it(2); });
    scope.spawn(ask(3));
    spawn_fiber(on, [&] { lock_it(4); });
    on.run();
    cs.post([&] { list.push_back(5); });
    busy.unlock();
    on.run();
    CHECK(list == std::vector<int>{1, 2, 3, 4, 5});
    sync_wait(scope.join());
  }

  TEST_CASE("delegated_mutex: the code may wait; the section stays held and no thread does") {
    thread_pool pool(2);
    critical_section cs;
    delegated_mutex m{cs};
    int inside = 0;
    std::atomic<int> most{0};
    std::vector<fiber<void>> all;
    for (int i = 0; i != 20; ++i) {
      all.push_back(pool.spawn_fiber([&] {
        const std::scoped_lock lock(m);
        most = std::max(most.load(), ++inside);
        turnstile::await(yield());
        turnstile::await(sleep_for(10us));
        --inside;
      }));
    }
    for (fiber<void>& f : all) sync_wait(std::move(f));
    CHECK(most == 1);
    CHECK(cs.statistics().executions == 20);
  }

  TEST_CASE("delegated_mutex: nested, of several sections") {
    thread_pool pool(2);
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    delegated_mutex ma{a};
    delegated_mutex mb{b};
    delegated_mutex mc{c};
    long in_a = 0;
    long in_b = 0;
    long in_c = 0;
    std::vector<fiber<void>> all;
    for (int i = 0; i != 40; ++i) {
      all.push_back(pool.spawn_fiber([&] {
        for (int turn = 0; turn != 50; ++turn) {
          const std::scoped_lock one(ma);
          ++in_a;
          if (turn % 2 == 0) {
            const std::scoped_lock two(mb);
            ++in_b;
            const std::scoped_lock three(mc);
            ++in_c;
          }
        }
      }));
    }
    for (fiber<void>& f : all) sync_wait(std::move(f));
    CHECK(in_a == 2000);
    CHECK(in_b == 1000);
    CHECK(in_c == 1000);
  }

  TEST_CASE("delegated_mutex: an exception leaves the code through unlock") {
    loop on;
    critical_section cs;
    delegated_mutex m{cs};
    section_guard busy = support::hold(cs);
    auto f = spawn_fiber(on, [&] {
      const std::scoped_lock lock(m);
      throw std::runtime_error("from inside");
    });
    on.run();
    busy.unlock();
    on.run();
    CHECK_THROWS_WITH(sync_wait(std::move(f)), "from inside");
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("delegated_mutex: of a bound section the code runs on its executor") {
    loop home;
    loop gui;
    critical_section cs{section_options{.executor = gui}};
    delegated_mutex m{cs};
    bool there = false;
    auto f = spawn_fiber(home, [&] {
      CHECK_FALSE(m.try_lock());
      {
        const std::scoped_lock lock(m);
        there = gui.here();
      }
      CHECK(home.here());
    });
    home.run();
    gui.run();
    CHECK(there);
    home.run();
    sync_wait(std::move(f));
  }

  TEST_CASE("delegated_mutex: two fibers that want what the other one has") {
    thread_pool pool(2);
    critical_section a{"a"};
    critical_section b{"b"};
    delegated_mutex ma{a};
    delegated_mutex mb{b};
    std::atomic<int> inside{0};
    std::atomic<int> refused{0};
    const auto cross = [&](delegated_mutex& first, delegated_mutex& second) {
      const std::scoped_lock one(first);
      ++inside;
      while (inside != 2) turnstile::await(yield());
      try {
        const std::scoped_lock two(second);
      } catch (const deadlock_error& e) {
        ++refused;
        CHECK(std::string(e.what()).find("delegated_mutex.cpp") != std::string::npos);
      }
    };
    auto f = pool.spawn_fiber([&] { cross(ma, mb); });
    auto g = pool.spawn_fiber([&] { cross(mb, ma); });
    sync_wait(when_all(std::move(f), std::move(g)));
    CHECK(refused >= 1);
  }

  TEST_CASE("delegated_mutex: what refuses a request is thrown by lock") {
    loop on;
    critical_section cs{section_options{.name = "cs", .max_waiters = 1}};
    delegated_mutex m{cs};
    section_guard busy = support::hold(cs);
    auto waits = spawn_fiber(on, [&] { const std::scoped_lock lock(m); });
    auto full = spawn_fiber(on, [&] { CHECK_THROWS_AS(m.lock(), section_full); });
    on.run();
    sync_wait(std::move(full));
    busy.unlock();
    on.run();
    sync_wait(std::move(waits));
    sync_wait(cs.close());
    auto closed = spawn_fiber(on, [&] {
      CHECK_THROWS_AS(m.lock(), section_closed);
      CHECK_THROWS_AS(m.try_lock(), section_closed);
    });
    on.run();
    sync_wait(std::move(closed));
    CHECK_THROWS_AS(m.lock(), section_closed);
    CHECK_THROWS_AS(m.try_lock(), section_closed);
  }

  TEST_CASE("delegated_mutex: a stop ends the wait in lock, and nothing is held") {
    loop on;
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    section_guard busy = support::hold(cs);
    for (const bool stoppable : {true, false}) {
      CAPTURE(stoppable);
      auto f = spawn_fiber(on, [&] { m.lock(); }, {.stoppable = stoppable});
      on.run();
      f.request_stop();
      on.run();
      CHECK(f.ready() == stoppable);
      busy.unlock();
      on.run();
      CHECK_THROWS_AS(sync_wait(std::move(f)), operation_cancelled);
      CHECK_FALSE(cs.statistics().held);
      busy = support::hold(cs);
    }
  }

  TEST_CASE("delegated_mutex: a stop does not end the code inside") {
    loop on;
    critical_section cs;
    delegated_mutex m{cs};
    auto f = spawn_fiber(on, [&] {
      const std::scoped_lock lock(m);
      turnstile::await(yield());
      return 1;
    });
    on.run_one();
    f.request_stop();
    on.run();
    CHECK(sync_wait(std::move(f)) == 1);
  }

  TEST_CASE("delegated_mutex: guards that are taken inside, and kept") {
    loop on;
    critical_section outer{"outer"};
    critical_section inner{"inner"};
    delegated_mutex m{outer};
    auto f = spawn_fiber(on, [&] {
      section_guard kept;
      {
        const std::scoped_lock lock(m);
        kept = turnstile::await(inner.lock());
      }
      CHECK_NOTHROW(turnstile::await(outer.execute([] {})));
      CHECK_THROWS_AS(turnstile::await(inner.execute([] {})), reentry_error);
    });
    on.run();
    sync_wait(std::move(f));
  }

  TEST_CASE("delegated_mutex: watched sections know of it") {
    loop on;
    registry::keep_executions(10);
    critical_section cs{"watched"};
    delegated_mutex m{cs};
    auto f = spawn_fiber(on, [&] {
      for (int i = 0; i != 2; ++i) const std::scoped_lock lock(m);
      if (m.try_lock()) m.unlock();
    });
    on.run();
    sync_wait(std::move(f));
    CHECK(registry::executions().size() == 3);
    registry::keep_executions(0);
    CHECK(cs.statistics().executions == 3);
  }

  TEST_CASE("delegated_mutex: a plain thread blocks, and holds like any guard") {
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    delegated_mutex same{cs};
    {
      const std::scoped_lock lock(m);
      CHECK_THROWS_AS(same.lock(), reentry_error);
      CHECK_FALSE(same.try_lock());
    }
    REQUIRE(same.try_lock());
    std::thread other([&] { const std::scoped_lock lock(m); });
    support::wait_for_waiters(cs, 1);
    same.unlock();
    other.join();
    CHECK(cs.statistics().executions == 3);
  }

  TEST_CASE("delegated_mutex: a plain thread's unlock runs no code of others") {
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    const auto me = std::this_thread::get_id();
    std::atomic<int> here{0};
    std::atomic<int> over{0};
    const auto note = [&] {
      if (std::this_thread::get_id() == me) ++here;
      ++over;
    };
    async_scope scope;
    const auto waits = [&]() -> task<> {
      co_await cs.execute(note);
      note();
    };
    const auto asks = [&]() -> task<> {
      auto pred = [&] {
        if (std::this_thread::get_id() == me) ++here;
        return over >= 2;
      };
      co_await cs.execute_when(pred, note);
    };
    bool is_aside = false;
    SUBCASE("bodies, and a coroutine without an executor") {}
    SUBCASE("and predicates") { is_aside = true; }
    if (is_aside) {
      scope.spawn(asks());
      here = 0;  // it was asked where it was made
    }
    m.lock();
    cs.post(note);
    scope.spawn(waits());
    m.unlock();
    sync_wait(scope.join());
    CHECK(here == 0);
    CHECK(over == (is_aside ? 4 : 3));
  }

  TEST_CASE("delegated_mutex: what a plain thread's unlock leaves waits for no executor in line") {
    manual_executor not_run;
    thread_pool pool(1);
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    std::atomic<bool> ran{false};
    const auto body = [&] { ran = true; };
    const auto asks = [&]() -> task<> { co_await cs.execute(body); };
    const auto waits_apart = [&]() -> task<> {
      auto is_true = [&] { return ran.load(); };
      co_await cs.execute_when(is_true, [] {});
    };
    const auto locks = [&]() -> task<> {
      const std::scoped_lock lock(m);
      co_return;
    };
    async_scope scope({.executor = not_run});
    async_scope on_pool({.executor = pool});
    SUBCASE("whose thread locks next") {
      m.lock();
      scope.spawn(asks());
      not_run.run();
      m.unlock();
      m.lock();
      CHECK(ran);
      m.unlock();
    }
    SUBCASE("whose only thread is blocked behind that") {
      m.lock();
      on_pool.spawn(asks());
      support::wait_for_waiters(cs, 1);
      on_pool.spawn(locks());
      support::wait_for_waiters(cs, 2);
      m.unlock();
    }
    SUBCASE("where one waits apart") {
      scope.spawn(waits_apart());
      not_run.run();
      m.lock();
      m.unlock();
      m.lock();
      m.unlock();
      body();
    }
    not_run.run();
    sync_wait(on_pool.join());
    cs.execute_blocking([] {});
    not_run.run();
    sync_wait(scope.join());
  }

  TEST_CASE("delegated_mutex: one std::scoped_lock with a std::mutex that bodies lock as well") {
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    std::mutex other;
    int n = 0;
    const auto both = [&] {
      const std::lock_guard lock(other);
      ++n;
    };
    for (int i = 0; i != 100; ++i) {
      const std::scoped_lock lock(m, other);
      cs.post(both);
    }
    sync_wait(cs.close());
    CHECK(n == 100);
  }

  TEST_CASE("delegated_mutex: a std::condition_variable_any waits with it") {
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    std::condition_variable_any changed;
    int n = 0;
    const auto set = [&] {
      ++n;
      changed.notify_all();
    };
    for (int i = 0; i != 100; ++i) {
      std::unique_lock lock(m);
      cs.post(set);
      changed.wait(lock, [&] { return n == i + 1; });
    }
    CHECK(n == 100);
  }

  TEST_CASE("delegated_mutex: several of bound sections are locked together by a plain thread") {
    manual_executor home;
    critical_section a{{.name = "a", .executor = home}};
    critical_section b{{.name = "b", .executor = home}};
    delegated_mutex ma{a};
    delegated_mutex mb{b};
    {
      const std::scoped_lock both(ma, mb);
      CHECK(a.statistics().held);
      CHECK(b.statistics().held);
    }
    CHECK_FALSE(a.statistics().held);
    CHECK_FALSE(b.statistics().held);
  }

  TEST_CASE("delegated_mutex: a stop around a plain thread ends its wait") {
    critical_section cs{"cs"};
    delegated_mutex m{cs};
    section_guard busy = support::hold(cs);
    async_scope scope;
    bool cancelled = false;
    std::thread blocked([&] {
      const auto locks = [&]() -> task<> {
        try {
          m.lock();
        } catch (const operation_cancelled&) {
          cancelled = true;
        }
        co_return;
      };
      sync_wait(timeout(locks(), 1ms));
    });
    blocked.join();
    CHECK(cancelled);
    busy.unlock();
    CHECK(m.try_lock());
    m.unlock();
  }

  TEST_CASE("delegated_mutex: threads, fibers and coroutines") {
    thread_pool pool(2);
    critical_section cs;
    delegated_mutex m{cs};
    long n = 0;
    constexpr int turns = 500;
    async_scope scope{{.executor = pool}};
    std::vector<std::thread> threads;
    const auto lock_it = [&] {
      for (int i = 0; i != turns; ++i) {
        const std::scoped_lock lock(m);
        ++n;
      }
    };
    const auto ask = [&]() -> task<> {
      for (int i = 0; i != turns; ++i) co_await cs.execute([&] { ++n; });
    };
    for (int i = 0; i != 4; ++i) {
      scope.spawn(pool.spawn_fiber(lock_it));
      scope.spawn(ask());
    }
    for (int i = 0; i != 2; ++i) threads.emplace_back(lock_it);
    for (std::thread& t : threads) t.join();
    sync_wait(scope.join());
    CHECK(n == 10 * turns);
    CHECK(cs.statistics().executions == static_cast<std::uint64_t>(n));
  }

  TEST_CASE("delegated_mutex: who tries it while it changes a variable does not wait behind it") {
    manual_executor on;
    critical_section cs;
    delegated_mutex m{cs};
    variable<int> v(0);
    constexpr int times = 1000;  // many turns
    bool other_ran = false;
    auto f = spawn_fiber(on, [&] {
      v.update([&](int& n) {
        for (int i = 0; i != times; ++i) {
          if (!m.try_lock()) continue;
          ++n;
          m.unlock();
        }
      });
      CHECK_FALSE(other_ran);
      if (m.try_lock()) m.unlock();  // here it does
      CHECK(other_ran);
    });
    auto other = spawn_fiber(on, [&] { other_ran = true; });
    on.run();
    sync_wait(std::move(f));
    sync_wait(std::move(other));
    CHECK(*v.read() == times);
  }

  TEST_CASE("delegated_mutex: its code does not go on within a function that changes a variable") {
    loop on;
    critical_section cs;
    delegated_mutex m{cs};
    variable<int> v(0);
    section_guard busy = support::hold(cs);
    std::atomic<bool> over = false;
    auto f = spawn_fiber(on, [&] {
      {
        const std::scoped_lock lock(m);
        turnstile::await(yield());
        v.assign_add(10);
      }
      over = true;
    });
    on.run();
    CHECK(cs.statistics().waiters == 1);
    bool left = false;
    v.update([&](int& n) {
      ++n;
      if (std::exchange(left, true)) return;  // again: somebody has changed it meanwhile
      busy.unlock();
    });
    while (!over) {
      on.run();
      std::this_thread::yield();
    }
    sync_wait(std::move(f));
    CHECK(*v.read() == 11);
  }

  TEST_CASE("delegated_mutex: what breaks the contract says so in one line") {
    const auto check_breaks = [](auto code, const char* what) {
      const auto child = [&] {
        loop on;
        critical_section a{"a"};
        critical_section b{"b"};
        delegated_mutex ma{a};
        delegated_mutex mb{b};
        auto f = spawn_fiber(on, [&] { code(ma, mb); }, named("f"));
        on.run();
      };
      support::check_dies(child, what);
    };
    SUBCASE("out of order") {
      check_breaks(
          [](delegated_mutex& a, delegated_mutex& b) {
            a.lock();
            b.lock();
            a.unlock();
          },
          "section \"a\": a delegated_mutex is unlocked before another one");
    }
    SUBCASE("not locked") {
      check_breaks([](delegated_mutex& a, delegated_mutex&) { a.unlock(); },
                   "section \"a\": a delegated_mutex is unlocked by who has not locked it");
    }
    SUBCASE("by another fiber") {
      const auto child = [] {
        loop on;
        critical_section cs{"cs"};
        delegated_mutex m{cs};
        auto locks = spawn_fiber(on, [&] {
          m.lock();
          turnstile::await(yield());
        });
        auto unlocks = spawn_fiber(on, [&] { m.unlock(); });
        on.run();
      };
      support::check_dies(child, "unlocked by who has not locked it");
    }
    SUBCASE("by another thread") {
      critical_section cs{"cs"};
      delegated_mutex m{cs};
      std::latch locked{1};
      std::latch told{1};
      std::thread locks([&] {
        m.lock();
        locked.count_down();
        told.wait();
        m.unlock();
      });
      locked.wait();
      support::check_dies([&] { m.unlock(); },
                          "section \"cs\": a delegated_mutex is unlocked by who has not locked it");
      told.count_down();
      locks.join();
    }
    SUBCASE("never unlocked") {
      check_breaks([](delegated_mutex&, delegated_mutex& b) { b.lock(); },
                   "section \"b\": a fiber ends while it holds a delegated_mutex");
    }
    SUBCASE("destroyed while a thread holds it") {
      const auto child = [] {
        critical_section cs{"cs"};
        delegated_mutex m{cs};
        m.lock();
      };
      support::check_dies(child, "destroyed while a thread holds it");
    }
  }
}
