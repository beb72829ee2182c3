// pool.cpp - thread_pool: workers that fall asleep and are woken, pools that come and go.
//
// A wake-up that is lost shows as a test that does not end.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <memory>
#include <thread>

using namespace turnstile;
using stress::dice;

namespace {

// Passes some time on this thread, so that workers are met at every stage of falling asleep.
void dawdle(dice& d) {
  for (unsigned n = d.below(20000); n != 0; --n) detail::pause();
}

void wait_until(const std::atomic<int>& count, int n) {
  while (count.load() != n) std::this_thread::yield();
}

task<> count_up(std::atomic<int>& n) {
  n.fetch_add(1);
  co_return;
}

// Posts from a worker and holds on to the thread until another worker has run what it posted.
task<> count_up_with_help(async_scope& scope, std::atomic<int>& n) {
  std::atomic<int> helped{0};
  scope.spawn(count_up(helped));
  wait_until(helped, 1);
  n.fetch_add(1);
  co_return;
}

// Holds on to its thread until the other one is done.
struct waiting_job : job {
  explicit waiting_job(const waiting_job* o = nullptr) noexcept : job(&run_it), other(o) {}
  static void run_it(job& j) noexcept {
    auto& self = static_cast<waiting_job&>(j);
    if (self.other != nullptr) wait_until(self.other->done, 1);
    self.done.store(1);  // it may be gone
  }
  const waiting_job* other;
  std::atomic<int> done{0};
};

void one_life(dice& d) {
  auto pool = std::make_unique<thread_pool>(1 + d.below(4));
  auto cs = std::make_unique<critical_section>(
      section_options{.executor = d.one_in(2) ? executor_ref(*pool) : executor_ref{}});
  async_scope scope({.executor = *pool});
  int ran = 0;
  auto body = [&ran] { ++ran; };
  const int n = static_cast<int>(d.below(8));
  for (int i = 0; i != n; ++i) scope.spawn(cs->execute(body));
  sync_wait(scope.join());
  cs.reset();
  pool.reset();
  REQUIRE(ran == n);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("pool: one job at a time from outside, to workers about to sleep") {
    thread_pool pool(4);
    async_scope scope({.executor = pool});
    dice d(1);
    std::atomic<int> ran{0};
    const int rounds = stress::times_scale(stress::sanitized ? 2000 : 10000);
    for (int i = 0; i != rounds; ++i) {
      scope.spawn(count_up(ran));
      wait_until(ran, i + 1);
      dawdle(d);
    }
    sync_wait(scope.join());
  }

  TEST_CASE("pool: what a worker posts is taken by another one, asleep or not") {
    thread_pool pool(2);
    async_scope scope({.executor = pool});
    dice d(2);
    std::atomic<int> ran{0};
    const int rounds = stress::times_scale(stress::sanitized ? 2000 : 10000);
    for (int i = 0; i != rounds; ++i) {
      scope.spawn(count_up_with_help(scope, ran));
      wait_until(ran, i + 1);
      dawdle(d);
    }
    sync_wait(scope.join());
  }

  TEST_CASE("pool: two jobs at a time, of which one waits for the other") {
    thread_pool pool(2);
    dice d(4);
    const int rounds = stress::times_scale(stress::sanitized ? 2000 : 20000);
    for (int i = 0; i != rounds; ++i) {
      waiting_job second;
      waiting_job first(&second);
      first.next = &second;
      executor_ref(pool).post(&first, &second, 2);
      wait_until(first.done, 1);
      wait_until(second.done, 1);
      if (d.one_in(2)) dawdle(d);
    }
  }

  TEST_CASE("pool: bursts from several threads") {
    thread_pool pool(3);
    const int rounds = stress::times_scale(stress::sanitized ? 300 : 1500);
    stress::together(3, [&](int t) {
      dice d(10u + static_cast<std::uint32_t>(t));
      async_scope scope({.executor = pool});
      std::atomic<int> ran{0};
      int asked = 0;
      for (int i = 0; i != rounds; ++i) {
        const int n = static_cast<int>(d.below(600));  // more than fits into a worker's queue
        for (int k = 0; k != n; ++k) scope.spawn(count_up(ran));
        asked += n;
        wait_until(ran, asked);
        if (d.one_in(4)) dawdle(d);
      }
      sync_wait(scope.join());
    });
  }

  TEST_CASE("pool: destroyed right after its last work") {
    dice d(3);
    for (int i = stress::times_scale(stress::sanitized ? 500 : 3000); i != 0; --i) one_life(d);
  }
}
