// own_code.cpp - what others do on a fiber's thread is done neither as its code nor on its stack.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <cstdint>
#include <doctest/doctest.h>
#include <mutex>
#include <optional>
#include <thread>
#include <tuple>
#include <utility>

using namespace turnstile;
using support::gate;
using support::loop;

namespace {

std::uintptr_t stack_here() { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); }

bool is_far(std::uintptr_t one, std::uintptr_t other) {
  return std::max(one, other) - std::min(one, other) > fiber_options{}.stack_size;
}

}  // namespace

TEST_SUITE("fiber") {
  TEST_CASE("fiber: a body that it blocks for is not its code") {
    loop on;
    critical_section cs;
    auto f = spawn_fiber(on, [&] {
      const bool inside = cs.execute_blocking([] { return in_fiber(); });
      CHECK_FALSE(inside);
      CHECK(in_fiber());
    });
    on.run();
    sync_wait(std::move(f));
  }

  TEST_CASE("fiber: a body that an eager coroutine runs within its code is not its code") {
    loop on;
    critical_section cs;
    critical_section of_mutex;
    delegated_mutex m{of_mutex};
    auto f = spawn_fiber(on, [&] {
      bool inside = true;
      bool blocked = false;
      const auto eager = [&]() -> support::foreign {
        co_await cs.execute([&] {
          const section_guard also = std::move(of_mutex.try_lock().value());
          inside = in_fiber();
        });
        co_await cs.execute([&] {
          const std::scoped_lock lock(m);  // as a thread's, which blocks
          blocked = true;
        });
      };
      const support::foreign done = eager();
      CHECK(done.done());
      CHECK_FALSE(inside);
      CHECK(blocked);
      const std::scoped_lock lock(m);
      CHECK(in_fiber());
      const section_guard more = std::move(cs.try_lock().value());
      CHECK(in_fiber());
    });
    on.run();
    sync_wait(std::move(f));
  }

  TEST_CASE("fiber: bodies of several sections run on the thread's stack, and not as its code") {
    loop on;
    critical_section a;
    critical_section b;
    std::uintptr_t others = 0;
    bool over = false;
    std::optional<support::foreign> waits;
    auto f = spawn_fiber(on, [&] {
      const std::uintptr_t own = stack_here();
      section_guard mine = turnstile::await(a.lock());
      const auto body = [&] { others = in_fiber() ? own : stack_here(); };
      std::thread([&] {
        waits.emplace(support::await_in_foreign(execute(std::tie(a, b), body), over));
      }).join();
      mine.unlock();
      CHECK(is_far(own, others));
      CHECK(in_fiber());
    });
    on.run();
    sync_wait(std::move(f));
    CHECK(over);
  }

  TEST_CASE("fiber: who goes on after a call in which it blocked does so on the thread's stack") {
    loop on;
    critical_section cs;
    std::uintptr_t others = 0;
    std::optional<support::foreign> waits;
    auto f = spawn_fiber(on, [&] {
      const std::uintptr_t own = stack_here();
      const auto waiter = [&]() -> support::foreign {
        co_await cs.execute([] {});
        others = in_fiber() ? own : stack_here();
      };
      const auto body = [&] { std::thread([&] { waits.emplace(waiter()); }).join(); };
      SUBCASE("execute_blocking") { cs.execute_blocking(body); }
      SUBCASE("sync_wait") { sync_wait(cs.execute(body)); }
      CHECK(is_far(own, others));
      CHECK(in_fiber());
    });
    on.run();
    waits->wait();
    sync_wait(std::move(f));
  }

  TEST_CASE("fiber: bodies of a bound section do not run where a hold of it has come to") {
    loop gui;
    thread_pool pool{1};
    critical_section cs({.executor = gui});
    critical_section other;
    delegated_mutex m{cs};
    bool ran_there = false;
    gate g;
    auto f = spawn_fiber(gui, [&] {
      const std::scoped_lock lock(m);
      CHECK(gui.here());
      turnstile::await(other.execute([] {}, {.resume_on = pool}));
      CHECK_FALSE(gui.here());
      cs.post([&] { ran_there = gui.here(); });
    });
    while (!f.ready()) gui.run();
    gui.run();
    CHECK(ran_there);
    sync_wait(std::move(f));
  }
}
