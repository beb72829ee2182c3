// on_top.cpp - whoever holds a section and leaves another one runs no bodies of others on top of
// what it does if they can run elsewhere: they may block the thread for what it holds, which it
// could never leave then.

#include "support/foreign.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <latch>
#include <thread>
#include <tuple>
#include <utility>

using namespace turnstile;
using support::hold;
using support::wait_for_waiters;

namespace {

const auto nothing = [] {};

// Who waits for its turn is counted a moment before it can be served: of many it is some.
constexpr int rounds = 100;

// Has a place in the line of `first`, and wants `second` as well in its turn there.
std::jthread in_line_for_both(critical_section& first, critical_section& second,
                              std::atomic<int>& had_both) {
  const std::size_t before = first.statistics().waiters;
  std::jthread t(
      [&] { first.execute_blocking([&] { second.execute_blocking([&] { ++had_both; }); }); });
  wait_for_waiters(first, before + 1);
  return t;
}

struct two_sections {
  critical_section outer{"outer"};
  critical_section inner{"inner"};
  std::atomic<int> had_both{0};

  std::jthread wants_both() { return in_line_for_both(inner, outer, had_both); }
};

}  // namespace

TEST_CASE("a thread inside a section leaves another one to who waits for both") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread first;
    std::jthread second;
    s.outer.execute_blocking([&] {
      s.inner.execute_blocking([&] {
        first = s.wants_both();
        second = s.wants_both();
      });
      CHECK(s.had_both == 0);
    });
    first.join();
    second.join();
    CHECK(s.had_both == 2);
  }
}

TEST_CASE("the same of a coroutine whose body waits") {
  for (int round = 0; round != rounds; ++round) {
    thread_pool pool(1);
    two_sections s;
    std::jthread other;
    const auto both = [&]() -> task<> {
      co_await s.outer.execute([&]() -> task<> {
        co_await s.inner.execute([&] { other = s.wants_both(); });
        CHECK(s.had_both == 0);
      });
    };
    async_scope scope{{.executor = pool}};
    scope.spawn(both());
    sync_wait(scope.join());
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("the same of guards") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread other;
    section_guard outer = std::move(s.outer.try_lock().value());
    section_guard inner = std::move(s.inner.try_lock().value());
    other = s.wants_both();
    inner.unlock();
    outer.unlock();
    other.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("the same of several sections") {
  thread_pool pool(1);
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    critical_section third("third");
    std::jthread other;
    async_scope scope{{.executor = pool}};
    const auto wants_all = [&]() -> task<> {
      co_await execute(std::tie(s.inner, third),
                       [&] { s.outer.execute_blocking([&] { ++s.had_both; }); });
    };
    s.outer.execute_blocking([&] {
      sync_wait(execute(std::tie(s.inner, third), [&] {
        other = s.wants_both();
        scope.spawn(wants_all());
        while (s.inner.statistics().waiters + third.statistics().waiters != 2) {
          std::this_thread::yield();
        }
      }));
      CHECK(s.had_both == 0);
    });
    other.join();
    sync_wait(scope.join());
    CHECK(s.had_both == 2);
  }
}

TEST_CASE("who is given the section while it blocks in line serves nobody else") {
  for (int round = 0; round != rounds; ++round) {
    two_sections s;
    std::jthread behind_it;
    section_guard busy = hold(s.inner);
    for (int i = 0; i != 32; ++i) s.inner.post(nothing);  // as many as who unlocks serves
    std::jthread t([&] { s.outer.execute_blocking([&] { s.inner.execute_blocking(nothing); }); });
    wait_for_waiters(s.inner, 33);
    behind_it = s.wants_both();
    busy.unlock();
    t.join();
    behind_it.join();
    CHECK(s.had_both == 1);
  }
}

TEST_CASE("coroutines behind one that holds something go on elsewhere") {
  for (int round = 0; round != rounds; ++round) {
    thread_pool pool(2);
    two_sections s;
    std::atomic<int> ran{0};
    async_scope scope{{.executor = pool}};
    const auto with_both = [&]() -> task<> {
      co_await s.inner.execute([&] { s.outer.execute_blocking([&] { ++ran; }); });
    };
    s.outer.execute_blocking([&] {
      s.inner.execute_blocking([&] {
        for (int i = 0; i != 64; ++i) scope.spawn(with_both());
        wait_for_waiters(s.inner, 64);
      });
    });
    sync_wait(scope.join());
    CHECK(ran == 64);
  }
}

TEST_CASE("what has no executor is served on top all the same") {
  two_sections s;
  bool over = false;
  bool ran = false;
  section_guard busy = hold(s.inner);
  const support::foreign waiter =
      support::await_in_foreign(s.inner.execute([&] { ran = true; }), over);
  s.outer.execute_blocking([&] {
    busy.unlock();
    CHECK(ran);
  });
  CHECK(over);
}
