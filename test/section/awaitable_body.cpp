// awaitable_body.cpp - bodies that wait: the section is held meanwhile, and no thread is.

#include "support/counted.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;

namespace {

task<int> answer(int n) { co_return n; }

task<> fail_at_once() {
  throw std::runtime_error("at once");
  co_return;
}

// An awaitable that is ready, with a value.
struct ready_value {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  int await_resume() const noexcept { return 11; }
};

// Both kinds of operator co_await.
struct with_member {
  ready_value operator co_await() const noexcept { return {}; }
};
struct with_free {};
struct immovable : ready_value {
  immovable() = default;
  immovable(immovable&&) = delete;
};
ready_value operator co_await(const with_free&) noexcept { return {}; }

template <class Body>
foreign enter(critical_section& cs, Body& body, bool& over) {
  co_await cs.execute(body);
  over = true;
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("awaitable body: R is what the awaitable gives") {
    critical_section cs;
    CHECK(sync_wait(cs.execute([] { return answer(3); })) == 3);
    CHECK(sync_wait(cs.execute([] { return ready_value{}; })) == 11);
    CHECK(sync_wait(cs.execute([] { return with_member{}; })) == 11);
    CHECK(sync_wait(cs.execute([] { return with_free{}; })) == 11);
  }

  TEST_CASE("awaitable body: what it returns need not be movable") {
    critical_section cs;
    critical_section other;
    CHECK(sync_wait(cs.execute([] { return immovable{}; })) == 11);
    CHECK(sync_wait(execute(std::tie(cs, other), [] { return immovable{}; })) == 11);
    CHECK(sync_wait(cs.submit([] { return immovable{}; })) == 11);
    const auto fails = []() -> immovable { throw std::runtime_error("no"); };
    CHECK_THROWS_WITH(sync_wait(cs.execute(fails)), "no");
  }

  TEST_CASE("awaitable body: results may be move-only or references") {
    critical_section cs;
    int x = 0;
    auto move_only = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(8); };
    auto reference = [&]() -> task<int&> { co_return x; };
    CHECK(*sync_wait(cs.execute(move_only)) == 8);
    int& got = sync_wait(cs.execute(reference));
    CHECK(&got == &x);
  }

  TEST_CASE("awaitable body: an execution of another section is an awaitable body too") {
    critical_section outer;
    critical_section inner;
    CHECK(sync_wait(outer.execute([&] { return inner.execute([] { return 5; }); })) == 5);
  }

  TEST_CASE("awaitable body: the section is held and no thread is while it waits") {
    critical_section cs;
    gate g;
    bool over = false;
    auto body = [&]() -> task<> { co_await g; };
    const foreign f = enter(cs, body, over);
    CHECK(g.waiting() == 1);
    CHECK(cs.statistics().held);
    CHECK(cs.statistics().executions == 0);
    CHECK_FALSE(cs.try_execute([] {}));
    g.open();
    CHECK(over);
    CHECK(f.done());
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.statistics().executions == 1);
  }

  TEST_CASE("awaitable body: a body may return an awaitable that knows nothing of the library") {
    critical_section cs;
    gate g;
    bool over = false;
    auto body = [&] { return g.passed(); };
    const foreign f = enter(cs, body, over);
    CHECK(cs.statistics().held);
    g.open();
    CHECK(over);
  }

  TEST_CASE("awaitable body: those behind it run when it has ended") {
    critical_section cs;
    gate g;
    bool over[3] = {};
    std::vector<int> order;
    auto waiting = [&]() -> task<> {
      order.push_back(0);
      co_await g;
      order.push_back(1);
    };
    auto plain = [&] { order.push_back(2); };
    const foreign a = enter(cs, waiting, over[0]);
    const foreign b = enter(cs, plain, over[1]);
    const foreign c = enter(cs, waiting, over[2]);
    CHECK(order == std::vector<int>{0});
    CHECK(cs.statistics().waiters == 2);
    support::serve_here([&] { g.open(); });
    CHECK(order == std::vector<int>{0, 1, 2, 0, 1});
    CHECK(over[0]);
    CHECK(over[1]);
    CHECK(over[2]);
  }

  TEST_CASE("awaitable body: its errors reach the awaiter, thrown before, at and after its wait") {
    critical_section cs;
    gate g;
    auto before = []() -> task<> { throw std::runtime_error("no coroutine was made"); };
    auto at_once = [] { return fail_at_once(); };
    auto after = [&]() -> task<> {
      co_await g;
      throw std::runtime_error("after");
    };
    bool over = false;
    CHECK_THROWS_AS(sync_wait(cs.execute(before)), std::runtime_error);
    CHECK_THROWS_WITH(sync_wait(cs.execute(at_once)), "at once");
    const foreign f = enter(cs, after, over);
    g.open();
    CHECK_THROWS_WITH(f.rethrow(), "after");
    CHECK_FALSE(over);
    CHECK(cs.try_execute([] {}));
    CHECK(cs.statistics().executions == 4);
  }

  TEST_CASE("awaitable body: a plain function that throws instead of returning the awaitable") {
    critical_section cs;
    auto body = [](bool fail) {
      return [fail] {
        if (fail) throw std::runtime_error("instead");
        return answer(1);
      };
    };
    CHECK_THROWS_WITH(sync_wait(cs.execute(body(true))), "instead");
    CHECK(sync_wait(cs.execute(body(false))) == 1);
  }

  TEST_CASE("awaitable body: a coroutine lambda may use its captures after its wait") {
    {
      critical_section cs;
      gate g;
      bool over = false;
      int got = 0;
      foreign f = [](critical_section& s, gate& at, int& out, bool& end) -> foreign {
        const counted captured(21);
        auto body = [captured, &at]() -> task<int> {
          co_await at;
          co_return captured.value;
        };
        out = co_await s.execute(body);
        end = true;
      }(cs, g, got, over);
      g.open();
      CHECK(over);
      CHECK(got == 21);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("awaitable body: its frame is gone before the awaiter resumes") {
    {
      critical_section cs;
      auto body = []() -> task<counted> {
        const counted local(1);
        co_return counted(local.value + 1);
      };
      int alive = -1;
      sync_wait([](critical_section& s, auto& b, int& out) -> task<> {
        const counted got = co_await s.execute(b);
        out = counted::alive();
      }(cs, body, alive));
      CHECK(alive == 1);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("awaitable body: goes on where any coroutine would") {
    critical_section cs;
    thread_pool pool{1};
    std::thread::id waited_on;
    std::thread::id went_on;
    auto body = [&]() -> task<> {
      co_await schedule_on(pool, [](std::thread::id& at) -> task<> {
        at = std::this_thread::get_id();
        co_return;
      }(waited_on));
      went_on = std::this_thread::get_id();
    };
    sync_wait(cs.execute(body));
    CHECK(waited_on != std::this_thread::get_id());
    CHECK(went_on == waited_on);
  }

  TEST_CASE("awaitable body: many in a row, waiting and not waiting, do not grow the stack") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    int ran = 0;
    auto body = [&]() -> task<> {
      ++ran;
      co_return;
    };
    std::vector<foreign> all;
    std::vector<char> over(20000);
    all.reserve(over.size());
    for (char& o : over) {
      all.push_back([](critical_section& s, auto& b, char& end) -> foreign {
        co_await s.execute(b);
        end = 1;
      }(cs, body, o));
    }
    support::serve_here([&] { busy.unlock(); });
    CHECK(ran == 20000);
    CHECK(std::ranges::count(over, 1) == 20000);
  }
}
