// million.cpp - a million bodies in one line: constant stack, in every build.

#include "stress/dice.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <thread>

using namespace turnstile;

namespace {

// A sanitizer's frames and memory are several times larger.
const int many = stress::times_scale(stress::sanitized ? 100'000 : 1'000'000);

// A few rounds of serving; a frame for each body would be megabytes.
constexpr std::size_t little_stack = 64 * 1024;

struct meter {
  void body() {
    ++ran;
    if (ran % 64 == 0) stack.look();
  }

  int ran = 0;
  int back = 0;
  support::stack_meter stack;
};

// One loop, run by this thread: everything happens on one stack, which is measured.
class on_one_loop {
 public:
  on_one_loop() : guard_(cs.try_lock().value()) { guard_.detach(); }

  template <class Ask>
  void ask_many(Ask ask) {
    for (int i = 0; i != many; ++i) scope_.spawn(ask(*this));
    loop_.run();
    CHECK(cs.statistics().waiters == static_cast<std::size_t>(many));
    CHECK(counts.ran == 0);
  }

  void let_go() {
    guard_.unlock();
    loop_.run();
    sync_wait(scope_.join());
    CHECK(counts.ran == many);
    CHECK(counts.back == many);
    CHECK(counts.stack.used() < little_stack);
  }

  critical_section cs;
  meter counts;

 private:
  section_guard guard_;
  manual_executor loop_;
  async_scope scope_{{.executor = loop_}};
};

task<> ask_plain(on_one_loop& here) {
  co_await here.cs.execute([&here] { here.counts.body(); });
  ++here.counts.back;
}

task<> ask_waiting(on_one_loop& here) {
  auto body = [&here]() -> task<> {
    here.counts.body();
    co_return;
  };
  co_await here.cs.execute(body);
  ++here.counts.back;
}

task<> ask_guard(on_one_loop& here) {
  auto guard = co_await here.cs.lock();
  here.counts.body();
  guard.unlock();
  ++here.counts.back;
}

task<int> one() { co_return 1; }

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("million: plain bodies behind a guard") {
    on_one_loop here;
    here.ask_many(&ask_plain);
    here.let_go();
  }

  TEST_CASE("million: bodies that return a task behind a guard") {
    on_one_loop here;
    here.ask_many(&ask_waiting);
    here.let_go();
  }

  TEST_CASE("million: guards behind a guard") {
    on_one_loop here;
    here.ask_many(&ask_guard);
    here.let_go();
  }

  TEST_CASE("million: posted bodies") {
    critical_section cs;
    meter counts;
    auto guard = cs.try_lock();
    for (int i = 0; i != many; ++i) cs.post([&counts] { ++counts.ran; });
    guard->unlock();
    sync_wait(cs.close());
    CHECK(counts.ran == many);
  }

  TEST_CASE("million: coroutines without an executor") {
    critical_section cs;
    async_scope scope;
    int ran = 0;
    auto guard = cs.try_lock();
    auto body = [&ran] { ++ran; };
    for (int i = 0; i != many; ++i) scope.spawn(cs.execute(body));
    guard->unlock();
    sync_wait(scope.join());
    CHECK(ran == many);
  }

  TEST_CASE("million: inside one body that waits for each") {
    critical_section outer;
    critical_section inner;
    meter counts;
    auto body = [&]() -> task<int> {
      int sum = 0;
      for (int i = 0; i != many; ++i) {
        sum += co_await one();
        co_await inner.execute([&counts] { counts.body(); });
      }
      co_return sum;
    };
    CHECK(sync_wait(outer.execute(body)) == many);
    CHECK(counts.ran == many);
    CHECK(counts.stack.used() < little_stack);
  }

  TEST_CASE("million: one after the other, each resumed by the section") {
    critical_section cs;
    thread_pool pool(2);
    async_scope scope({.executor = pool});
    int ran = 0;
    auto ask_often = [&]() -> task<> {
      for (int i = 0; i != many / 2; ++i) co_await cs.execute([&ran] { ++ran; });
    };
    scope.spawn(ask_often());
    scope.spawn(ask_often());
    sync_wait(scope.join());
    CHECK(ran == many / 2 * 2);
  }
}
