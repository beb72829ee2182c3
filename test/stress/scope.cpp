// scope.cpp - async_scope: joining in loops, and the end of the scope right after.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>

using namespace turnstile;
using stress::dice;

namespace {

task<> work(std::atomic<int>& done, unsigned yields) {
  for (; yields != 0; --yields) co_await yield();
  done.fetch_add(1);
}

task<> failing(std::atomic<int>& done) {
  co_await yield();
  done.fetch_add(1);
  throw std::runtime_error("by spawned work");
}

// Spawns and joins again and again; a join that comes back too early is seen at once.
task<> spawn_and_join(async_scope& scope, dice& d, int rounds, int& early) {
  std::atomic<int> done{0};
  int spawned = 0;
  for (int i = 0; i != rounds; ++i) {
    const int n = 1 + static_cast<int>(d.below(3));
    for (int k = 0; k != n; ++k) scope.spawn(work(done, d.below(2)));
    spawned += n;
    co_await scope.join();
    if (done != spawned) ++early;
  }
}

task<> join(async_scope& scope, std::atomic<int>& caught) {
  try {
    co_await scope.join();
  } catch (const std::runtime_error&) {
    ++caught;
  }
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("scope: destroyed right after the join") {
    thread_pool pool(3);
    dice d(1);
    std::atomic<int> done{0};
    int spawned = 0;
    for (int i = stress::times_scale(stress::sanitized ? 5000 : 20000); i != 0; --i) {
      auto scope = std::make_unique<async_scope>(scope_options{.executor = pool});
      const int n = static_cast<int>(d.below(4));
      for (int k = 0; k != n; ++k) scope->spawn(work(done, d.below(2)));
      sync_wait(scope->join());
      scope.reset();
      spawned += n;
      REQUIRE(done == spawned);
    }
  }

  TEST_CASE("scope: joined by a coroutine on the pool, again and again") {
    thread_pool pool(3);
    dice d(2);
    const int rounds = stress::times_scale(stress::sanitized ? 20000 : 100000);
    int early = 0;
    async_scope scope({.executor = pool});
    sync_wait(schedule_on(pool, spawn_and_join(scope, d, rounds, early)));
    CHECK(early == 0);
  }

  TEST_CASE("scope: joined by a plain thread, again and again") {
    thread_pool pool(3);
    dice d(3);
    const int rounds = stress::times_scale(stress::sanitized ? 5000 : 20000);
    int early = 0;
    async_scope scope({.executor = pool});
    sync_wait(spawn_and_join(scope, d, rounds, early));
    CHECK(early == 0);
  }

  TEST_CASE("scope: an error goes to one of several that join") {
    thread_pool pool(3);
    for (int i = stress::times_scale(stress::sanitized ? 1000 : 5000); i != 0; --i) {
      std::atomic<int> done{0};
      std::atomic<int> caught{0};
      async_scope scope({.executor = pool});
      async_scope joiners({.executor = pool});
      for (int k = 0; k != 3; ++k) scope.spawn(failing(done));
      for (int k = 0; k != 3; ++k) joiners.spawn(join(scope, caught));
      sync_wait(joiners.join());
      REQUIRE(done == 3);
      REQUIRE(caught == 1);
    }
  }
}
