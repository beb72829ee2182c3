// sync_wait.cpp - a plain thread waits for an awaitable.

#include "support/counted.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>

using namespace turnstile;
using support::counted;
using support::gate;

namespace {

struct ready {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  int await_resume() const noexcept { return 2; }
};

// Says whether it is ready by what may only stand in an if.
struct in_its_own_words {
  struct answer {
    explicit operator bool() const noexcept { return yes; }
    bool yes;
  };

  answer await_ready() const noexcept { return {is_ready}; }
  bool await_suspend(std::coroutine_handle<>) noexcept {
    ++suspended;
    return false;
  }
  int await_resume() const noexcept { return 3; }

  bool is_ready;
  int suspended = 0;
};

// Gives an rvalue reference to something that dies with the awaiter.
struct gives_rvalue {
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  std::unique_ptr<int>&& await_resume() noexcept { return std::move(value); }

  std::unique_ptr<int> value = std::make_unique<int>(9);
};

task<std::thread::id> whereabouts() { co_return std::this_thread::get_id(); }

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("sync_wait: starts on the calling thread") {
    CHECK(sync_wait(whereabouts()) == std::this_thread::get_id());
  }

  TEST_CASE("sync_wait: takes any awaitable, by value or reference") {
    CHECK(sync_wait(ready{}) == 2);
    ready r;
    CHECK(sync_wait(r) == 2);
    gate g;
    g.open();
    sync_wait(g);
    sync_wait(std::suspend_never{});
  }

  TEST_CASE("sync_wait: whether it is ready an awaitable may say by whatever may stand in an if") {
    critical_section cs;
    for (const bool is_ready : {true, false}) {
      in_its_own_words words{is_ready};
      CHECK(sync_wait(words) == 3);
      auto by_a_task = [&]() -> task<int> { co_return co_await words; };
      CHECK(sync_wait(by_a_task()) == 3);
      auto by_a_body = [&]() -> in_its_own_words& { return words; };
      CHECK(sync_wait(cs.execute(by_a_body)) == 3);
      CHECK(words.suspended == (is_ready ? 0 : 3));
    }
  }

  TEST_CASE("sync_wait: references come back as references, rvalues as values") {
    int x = 0;
    auto reference = [&]() -> task<const int&> { co_return x; };
    static_assert(std::is_same_v<decltype(sync_wait(reference())), const int&>);
    CHECK(&sync_wait(reference()) == &x);
    static_assert(std::is_same_v<decltype(sync_wait(gives_rvalue{})), std::unique_ptr<int>>);
    CHECK(*sync_wait(gives_rvalue{}) == 9);
  }

  TEST_CASE("sync_wait: throws what the awaitable throws") {
    auto failing = []() -> task<> {
      throw std::runtime_error("x");
      co_return;
    };
    CHECK_THROWS_AS(sync_wait(failing()), std::runtime_error);
  }

  TEST_CASE("sync_wait: blocks until another thread has finished the work") {
    thread_pool pool{1};
    for (int i = 0; i != 500; ++i) {
      CHECK(sync_wait(schedule_on(pool, whereabouts())) != std::this_thread::get_id());
    }
  }

  TEST_CASE("sync_wait: blocks until another thread gives the section back") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    bool ran = false;
    std::thread waiting([&] { sync_wait(cs.execute([&] { ran = true; })); });
    support::wait_for_waiters(cs, 1);
    CHECK_FALSE(ran);
    busy.unlock();
    waiting.join();
    CHECK(ran);
  }

  TEST_CASE("sync_wait: may be called inside what sync_wait runs") {
    auto inner = []() -> task<int> { co_return sync_wait(ready{}); };
    CHECK(sync_wait(inner()) == 2);
  }

  TEST_CASE("sync_wait: who is to go on on this thread goes on, though it blocks") {
    critical_section cs;
    async_scope scope;
    bool went_on = false;
    auto next_in_line = [&]() -> task<> {
      section_guard mine = co_await cs.lock();
      went_on = true;
    };
    auto first = [&]() -> task<> {
      section_guard mine = co_await cs.lock();
      scope.spawn(next_in_line());
      mine.unlock();
      SUBCASE("it waits for all that was begun") { sync_wait(scope.join()); }
      SUBCASE("it wants the section") {
        cs.execute_blocking([] {});
      }
      CHECK(went_on);
      co_await scope.join();
    };
    sync_wait(first());
  }

  TEST_CASE("sync_wait: of two that go on on this thread, one waits for the other") {
    critical_section cs;
    async_scope scope;
    gate second_went_on;
    auto first = [&]() -> task<> {
      co_await cs.execute([] {});
      sync_wait(second_went_on);
    };
    auto second = [&]() -> task<> {
      co_await cs.execute([] {});
      second_went_on.open();
    };
    section_guard busy = support::hold(cs);
    scope.spawn(first());
    scope.spawn(second());
    busy.unlock();
    sync_wait(scope.join());
  }

  TEST_CASE("sync_wait: results are destroyed exactly once") {
    CHECK(sync_wait([]() -> task<counted> { co_return counted(3); }()).value == 3);
    CHECK(counted::alive() == 0);
  }
}
