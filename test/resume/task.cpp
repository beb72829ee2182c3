// task.cpp - coroutines that start when they are awaited.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <coroutine>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;
using support::stack_meter;

namespace {

// What a thread may use on top of a few calls, however deep the chain of awaits is.
constexpr std::size_t shallow = 64 * 1024;

task<int> number(int n) { co_return n; }

// Goes on within the call that suspends, which then looks at something.
struct resumed_by_itself {
  const bool& look_at;
  bool& seen;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const {
    const bool& it = look_at;
    bool& into = seen;
    h.resume();
    into = it;
  }
  void await_resume() const noexcept {}
};

// Resumes whoever waits when it rings, and is silent again.
struct bell {
  std::coroutine_handle<> waiting;
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { waiting = h; }
  void await_resume() const noexcept {}
  void ring() { std::exchange(waiting, nullptr).resume(); }
};

// Lets its exception out of whatever resumed it.
struct throws_out {
  struct promise_type {
    throws_out get_return_object() noexcept {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    std::suspend_always final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    [[noreturn]] void unhandled_exception() const { throw; }
  };
  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<>) const noexcept { return handle; }
  void await_resume() const noexcept {}

  std::coroutine_handle<promise_type> handle;
};

throws_out thrown_out() {
  throw std::runtime_error("out of resume");
  co_return;
}

task<> set(bool& started) {
  started = true;
  co_return;
}

task<int&> reference_to(int& x) { co_return x; }

task<std::unique_ptr<int>> move_only() { co_return std::make_unique<int>(5); }

task<counted> make_counted(counted c) { co_return counted(c.value + 1); }

task<int> failing() {
  throw std::runtime_error("failed");
  co_return 0;
}

task<long> depth(int n, stack_meter& m) {
  m.look();
  if (n == 0) co_return 0;
  const long below = co_await depth(n - 1, m);
  m.look();
  co_return below + 1;
}

task<long> deep_failure(int n, stack_meter& m) {
  if (n == 0) throw std::runtime_error("at the bottom");
  const long below = co_await deep_failure(n - 1, m);
  m.look();
  co_return below;
}

task<int> child(int i, stack_meter& m) {
  m.look();
  co_return i;
}

task<long> many_children(int n, stack_meter& m) {
  long sum = 0;
  for (int i = 0; i != n; ++i) sum += co_await child(i % 2, m);
  co_return sum;
}

task<long> many_executions(critical_section& cs, int n, stack_meter& m) {
  long ran = 0;
  for (int i = 0; i != n; ++i) {
    co_await cs.execute([&] { ++ran; });
    m.look();
  }
  co_return ran;
}

foreign await_task(task<int> t, int& got) { got = co_await std::move(t); }

// A string from a literal: return values are converted.
task<std::string> converted() { co_return "literal"; }

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("task: does not start before it is awaited") {
    bool started = false;
    {
      const task<> never = set(started);
      static_cast<void>(never);
    }
    CHECK_FALSE(started);
    task<> t = set(started);
    CHECK_FALSE(started);
    sync_wait(std::move(t));
    CHECK(started);
    static_assert(!std::is_copy_constructible_v<task<>>);
  }

  TEST_CASE("task: results of every kind") {
    int x = 0;
    CHECK(sync_wait(number(3)) == 3);
    CHECK(&sync_wait(reference_to(x)) == &x);
    CHECK(*sync_wait(move_only()) == 5);
    CHECK(sync_wait(converted()) == "literal");
    static_assert(std::is_same_v<decltype(sync_wait(reference_to(x))), int&>);
  }

  TEST_CASE("task: what a local's destructor throws takes the place of the result") {
    struct throws {
      ~throws() noexcept(false) { throw std::runtime_error("in the end"); }
    };
    const auto late = []() -> task<counted> {
      const throws last;
      co_return counted(1);
    };
    CHECK_THROWS_WITH(sync_wait(late()), "in the end");
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("task: a result may be written in braces") {
    const auto none = []() -> task<std::optional<int>> { co_return {}; };
    const auto two = []() -> task<std::pair<int, int>> { co_return {1, 2}; };
    CHECK_FALSE(sync_wait(none()).has_value());
    CHECK(sync_wait(two()) == std::pair(1, 2));
  }

  TEST_CASE("task: what it throws is thrown where it is awaited") {
    CHECK_THROWS_WITH_AS(sync_wait(failing()), "failed", std::runtime_error);
    auto catching = []() -> task<int> {
      try {
        co_return co_await failing();
      } catch (const std::runtime_error&) {
      }
      co_return co_await number(7);
    };
    CHECK(sync_wait(catching()) == 7);
  }

  TEST_CASE("task: may be moved until it is awaited, and assigned over") {
    {
      task<counted> a = make_counted(counted(1));
      task<counted> b = std::move(a);
      task<counted> c = make_counted(counted(10));
      c = std::move(b);
      CHECK(sync_wait(std::move(c)).value == 2);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("task: parameters, locals and results are destroyed exactly once") {
    {
      auto outer = []() -> task<counted> {
        const counted local(1);
        counted got = co_await make_counted(local);
        co_return got;
      };
      CHECK(sync_wait(outer()).value == 2);
      {
        const task<counted> never = make_counted(counted(1));
      }
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("task: destroyed while it waits for something foreign, it takes its children with it") {
    gate g;
    {
      auto leaf = [&]() -> task<> {
        const counted local(1);
        co_await g;
      };
      auto root = [&]() -> task<> { co_await leaf(); };
      bool over = false;
      const foreign f = support::await_in_foreign(root(), over);
      CHECK(counted::alive() == 1);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("task: a coroutine of any type may await it") {
    int got = 0;
    const foreign f = await_task(number(4), got);
    CHECK(got == 4);
    const foreign failed = await_task(failing(), got);
    CHECK_THROWS_AS(failed.rethrow(), std::runtime_error);
  }

  TEST_CASE("task: goes on wherever a foreign awaitable resumed it") {
    gate g;
    std::thread::id went_on;
    std::thread opener([&] {
      while (g.waiting() == 0) std::this_thread::yield();
      g.open();
    });
    const std::thread::id opened_by = opener.get_id();
    sync_wait([](gate& at, std::thread::id& where) -> task<> {
      co_await at;
      where = std::this_thread::get_id();
    }(g, went_on));
    opener.join();
    CHECK(went_on == opened_by);
  }

  TEST_CASE("task: awaited by a foreign coroutine inside another task, it runs inside the call") {
    int got = 0;
    bool ended_inside = false;
    sync_wait([](int& result, bool& ended) -> task<> {
      const foreign f = await_task(number(4), result);
      ended = f.done();
      co_return;
    }(got, ended_inside));
    CHECK(ended_inside);
    CHECK(got == 4);
  }

  TEST_CASE("task: one that its own awaiter resumes gets as far there as it can") {
    gate g;
    bool ran = false;
    bool had_run = false;
    async_scope scope;
    scope.spawn([](gate& end, bool& on, bool& seen) -> task<> {
      co_await resumed_by_itself{on, seen};
      co_await set(on);
      co_await end;
    }(g, ran, had_run));
    CHECK(had_run);
    g.open();
    sync_wait(scope.join());
  }

  TEST_CASE("task: what another library's coroutine throws out of its resumption arrives there") {
    const throws_out bad = thrown_out();
    const auto await_it = [&bad]() -> task<> { co_await throws_out(bad); };
    CHECK_THROWS_WITH(sync_wait(await_it()), "out of resume");
    bad.handle.destroy();
    CHECK(sync_wait(number(3)) == 3);
  }

  TEST_CASE("task: 100,000 nested awaits do not grow the stack") {
    stack_meter m;
    CHECK(sync_wait(depth(100000, m)) == 100000);
    CHECK(m.used() < shallow);
  }

  TEST_CASE("task: to resume others in its own code again and again does not grow the stack") {
    constexpr int times = 20000;
    bell b;
    stack_meter m;
    const auto once = [&]() -> task<> { co_await b; };
    const auto hears = [&]() -> task<> {
      for (int i = 0; i != times; ++i) co_await once();
    };
    const auto looks = [&]() -> task<> {
      m.look();
      co_return;
    };
    critical_section cs;
    SUBCASE("of a task") {
      const auto rings = [&]() -> task<> {
        for (int i = 0; i != times; ++i) {
          b.ring();
          co_await looks();
        }
      };
      sync_wait(when_all(hears(), rings()));
    }
    SUBCASE("of a body") {
      const auto ring = [&] { b.ring(); };
      const auto rings = [&]() -> task<> {
        for (int i = 0; i != times; ++i) {
          co_await cs.execute(ring);
          co_await looks();
        }
      };
      sync_wait(when_all(hears(), rings()));
    }
    CHECK(m.used() < shallow);
  }

  TEST_CASE("task: an error from 10,000 awaits below does not grow the stack") {
    stack_meter m;
    m.look();
    CHECK_THROWS_WITH(sync_wait(deep_failure(10000, m)), "at the bottom");
    CHECK(m.used() < shallow);
  }

  TEST_CASE("task: a million children, one after the other, do not grow the stack") {
    stack_meter m;
    CHECK(sync_wait(many_children(1000000, m)) == 500000);
    CHECK(m.used() < shallow);
  }

  TEST_CASE("task: many children, awaited by a coroutine of another type, do not grow the stack") {
    stack_meter m;
    long sum = 0;
    const foreign f = [](long& into, stack_meter& meter) -> foreign {
      for (int i = 0; i != 20000; ++i) into += co_await child(1, meter);
    }(sum, m);
    CHECK(sum == 20000);
    CHECK(m.used() < shallow);
  }

  TEST_CASE("task: a million executions, one after the other, do not grow the stack") {
    critical_section cs;
    stack_meter m;
    CHECK(sync_wait(many_executions(cs, 1000000, m)) == 1000000);
    CHECK(m.used() < shallow);
  }

  TEST_CASE("task: awaiting one twice, or one that was moved from, aborts") {
    support::check_dies(
        [] {
          sync_wait([](task<int> t) -> task<> {
            co_await std::move(t);
            co_await std::move(t);
          }(number(1)));
        },
        "a task is awaited twice");
    support::check_dies(
        [] {
          task<int> t = number(1);
          const task<int> other = std::move(t);
          sync_wait(std::move(t));
        },
        "a task is awaited that was moved from");
  }
}
