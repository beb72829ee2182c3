// thread_pool.cpp - threads that run jobs and steal from each other.

#include "support/at_its_end.hpp"
#include "support/counted.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <functional>
#include <latch>
#include <optional>
#include <semaphore>
#include <set>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;

namespace {

thread_local support::at_its_end thread_last;

task<> count(std::atomic<int>& n) {
  ++n;
  co_return;
}

task<> meet(std::latch& all_here) {
  all_here.arrive_and_wait();
  co_return;
}

// Posts jobs from a worker, so into that worker's own queue, and blocks it until they have run.
task<> post_and_block(thread_pool& pool, async_scope& scope, std::latch& ran, int n) {
  for (int i = 0; i != n; ++i) {
    scope.spawn(schedule_on(pool, [](std::latch& l) -> task<> {
      l.count_down();
      co_return;
    }(ran)));
  }
  ran.wait();
  co_return;
}

// Whichever worker runs this stands still until the coroutine that waits for the section went on.
task<> block_and_unlock(critical_section& cs, section_guard& busy, thread_pool& pool,
                        async_scope& scope, std::latch& served) {
  support::wait_for_waiters(cs, 1);
  scope.spawn(schedule_on(pool, [](section_guard& g) -> task<> {
    g.unlock();
    co_return;
  }(busy)));
  served.wait();
  co_return;
}

// Runs once somebody else has a worker that is always busy.
task<> post_and_block_beside(thread_pool& pool, async_scope& scope, std::latch& ran, int n,
                             std::latch& busy) {
  busy.arrive_and_wait();
  co_await post_and_block(pool, scope, ran, n);
}

task<> keep_busy(std::latch& busy, std::latch& until) {
  busy.arrive_and_wait();
  while (!until.try_wait()) co_await yield();
}

// Its executions never wait, so it never leaves its job.
task<> keep_executing(std::latch& busy, std::latch& until) {
  critical_section cs;
  busy.arrive_and_wait();
  while (!until.try_wait()) co_await cs.execute([] {});
}

// By the other worker, which has `keep(busy, until)` meanwhile.
template <class Keep>
void check_queued_is_run_beside(Keep keep) {
  thread_pool pool{2};
  for (const int n : {1, 50, 5000}) {
    std::latch busy{2};
    std::latch ran{n};
    async_scope posted;
    async_scope scope{{.executor = pool}};
    scope.spawn(keep(busy, ran));
    scope.spawn(post_and_block_beside(pool, posted, ran, n, busy));
    sync_wait(scope.join());
    sync_wait(posted.join());
  }
}

// As keep_executing until the other worker has blocked, and then long enough to look at it.
task<> wait_for_executions(std::latch& busy, std::latch& done) {
  busy.arrive_and_wait();
  sync_wait([]() -> task<> {
    critical_section cs;
    for (int i = 0; i != 300'000; ++i) co_await cs.execute([] {});
  }());
  done.count_down();
  co_return;
}

task<> post_and_wait(thread_pool& pool, async_scope& scope, std::latch& busy, std::latch& done) {
  scope.spawn(schedule_on(pool, []() -> task<> { co_return; }()));
  busy.arrive_and_wait();
  done.wait();
  co_return;
}

task<> fork_and_block(std::latch& busy, std::latch& ran) {
  busy.arrive_and_wait();
  co_await when_all(fork([](std::latch& l) -> task<> {
                      l.count_down();
                      co_return;
                    }(ran)),
                    [](std::latch& l) -> task<> {
                      l.wait();
                      co_return;
                    }(ran));
}

task<> hop(std::atomic<int>& n, int times) {
  for (int i = 0; i != times; ++i) {
    ++n;
    co_await yield();
  }
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("thread_pool: no threads is an invalid argument") {
    CHECK_THROWS_AS(thread_pool(0), std::invalid_argument);
    static_assert(!std::is_copy_constructible_v<thread_pool>);
    static_assert(!std::is_convertible_v<unsigned, thread_pool>);
  }

  TEST_CASE("thread_pool: has the number of threads asked for") {
    for (const unsigned n : {1u, 2u, 5u}) {
      thread_pool pool{n};
      CHECK(pool.size() == n);
      std::latch all_here{n};
      async_scope scope{{.executor = pool}};
      for (unsigned i = 0; i != n; ++i) scope.spawn(meet(all_here));
      sync_wait(scope.join());
    }
  }

  TEST_CASE("thread_pool: an idle one starts and stops") {
    for (int round = 0; round != 50; ++round) thread_pool pool{2};
  }

  TEST_CASE("thread_pool: runs every job once") {
    std::atomic<int> n{0};
    thread_pool pool{3};
    async_scope scope{{.executor = pool}};
    for (int i = 0; i != 2000; ++i) scope.spawn(hop(n, 5));
    sync_wait(scope.join());
    CHECK(n == 10000);
  }

  TEST_CASE("thread_pool: the destructor runs what is queued") {
    std::atomic<int> n{0};
    async_scope scope;
    {
      std::binary_semaphore go{0};
      thread_pool pool{1};
      scope.spawn(schedule_on(pool, [](std::binary_semaphore& s) -> task<> {
        s.acquire();
        co_return;
      }(go)));
      for (int i = 0; i != 1000; ++i) scope.spawn(schedule_on(pool, count(n)));
      go.release();
    }
    CHECK(n == 1000);
    sync_wait(scope.join());
  }

  TEST_CASE("thread_pool: the destructor runs what queued jobs post, too") {
    std::atomic<int> n{0};
    std::optional<thread_pool> pool(2);
    async_scope scope{{.executor = *pool}};
    for (int i = 0; i != 10; ++i) scope.spawn(hop(n, 100));
    pool.reset();
    CHECK(n == 1000);
    sync_wait(scope.join());
  }

  TEST_CASE("thread_pool: the destructor runs what its threads post while they end, too") {
    std::atomic<int> n{0};
    async_scope scope;
    {
      thread_pool pool(1);
      const auto post_again = [&] { scope.spawn(schedule_on(pool, count(n))); };
      scope.spawn(schedule_on(pool, [](std::function<void()> last) -> task<> {
        thread_last.call = std::move(last);
        co_return;
      }(post_again)));
    }
    CHECK(n == 1);
    sync_wait(scope.join());
  }

  TEST_CASE("thread_pool: what a blocked worker has queued is run by another") {
    thread_pool pool{2};
    for (int round = 0; round != 20; ++round) {
      std::latch ran{50};
      async_scope posted;
      async_scope scope{{.executor = pool}};
      scope.spawn(post_and_block(pool, posted, ran, 50));
      sync_wait(scope.join());
      sync_wait(posted.join());
    }
  }

  TEST_CASE(
      "thread_pool: more jobs from one worker than its queue holds, with that worker blocked") {
    thread_pool pool{2};
    std::latch ran{5000};
    async_scope posted;
    async_scope scope{{.executor = pool}};
    scope.spawn(post_and_block(pool, posted, ran, 5000));
    sync_wait(scope.join());
    sync_wait(posted.join());
  }

  TEST_CASE("thread_pool: what a blocked worker has queued is run by one that has always jobs") {
    check_queued_is_run_beside(&keep_busy);
  }

  TEST_CASE(
      "thread_pool: what a blocked worker has queued is run where one coroutine never waits") {
    check_queued_is_run_beside(&keep_executing);
  }

  TEST_CASE(
      "thread_pool: what a blocked worker has forked is run where one coroutine never waits") {
    thread_pool pool{2};
    std::latch busy{2};
    std::latch ran{1};
    async_scope scope{{.executor = pool}};
    scope.spawn(keep_executing(busy, ran));
    scope.spawn(fork_and_block(busy, ran));
    sync_wait(scope.join());
  }

  TEST_CASE(
      "thread_pool: a coroutine that its worker is blocked for does not wait behind others' jobs") {
    thread_pool pool{2};
    std::latch busy{2};
    std::latch done{1};
    async_scope posted;
    async_scope scope{{.executor = pool}};
    scope.spawn(wait_for_executions(busy, done));
    scope.spawn(post_and_wait(pool, posted, busy, done));
    sync_wait(scope.join());
    sync_wait(posted.join());
  }

  TEST_CASE(
      "thread_pool: a coroutine served by another worker goes on, though its own is blocked") {
    thread_pool pool{2};
    for (int round = 0; round != 50; ++round) {
      critical_section cs;
      section_guard busy = support::hold(cs);
      std::latch served{1};
      async_scope scope{{.executor = pool}};
      scope.spawn([](critical_section& s, section_guard& g, thread_pool& p, async_scope& more,
                     std::latch& l) -> task<> {
        more.spawn(schedule_on(p, block_and_unlock(s, g, p, more, l)));
        co_await s.execute([] {});
        l.count_down();
      }(cs, busy, pool, scope, served));
      sync_wait(scope.join());
    }
  }

  TEST_CASE("thread_pool: thousands of coroutines served by another worker come back") {
    thread_pool pool{2};
    critical_section cs;
    section_guard busy = support::hold(cs);
    std::atomic<int> back{0};
    async_scope scope{{.executor = pool}};
    for (int i = 0; i != 3000; ++i) {
      scope.spawn([](critical_section& s, std::atomic<int>& n) -> task<> {
        co_await s.execute([] {});
        ++n;
      }(cs, back));
    }
    support::wait_for_waiters(cs, 3000);
    scope.spawn([](section_guard& g) -> task<> {
      g.unlock();
      co_return;
    }(busy));
    sync_wait(scope.join());
    CHECK(back == 3000);
  }

  TEST_CASE("thread_pool: jobs from outside are not starved by a worker that always has its own") {
    thread_pool pool{1};
    std::atomic<bool> stop{false};
    async_scope scope{{.executor = pool}};
    scope.spawn([](std::atomic<bool>& s) -> task<> {
      while (!s) co_await yield();
    }(stop));
    sync_wait(schedule_on(pool, [](std::atomic<bool>& s) -> task<> {
      s = true;
      co_return;
    }(stop)));
    sync_wait(scope.join());
    CHECK(stop);
  }

  TEST_CASE("thread_pool: what did not fit into a queue is not starved by jobs from outside") {
    thread_pool pool{1};
    constexpr int many = 1000;
    constexpr int flood = 20000;
    std::latch flooded{1};
    std::atomic<int> own{0};
    std::atomic<int> others{0};
    int others_before_the_last_own = -1;
    async_scope scope{{.executor = pool}};
    scope.spawn([](async_scope& s, std::latch& go, std::atomic<int>& n,
                   std::atomic<int>& from_outside, int& seen) -> task<> {
      go.wait();
      for (int i = 0; i != many; ++i) {
        s.spawn([](std::atomic<int>& c, std::atomic<int>& o, int& out) -> task<> {
          if (++c == many) out = o;
          co_return;
        }(n, from_outside, seen));
      }
      co_return;
    }(scope, flooded, own, others, others_before_the_last_own));
    for (int i = 0; i != flood; ++i) scope.spawn(count(others));
    flooded.count_down();
    sync_wait(scope.join());
    CHECK(own == many);
    CHECK(others == flood);
    CHECK(others_before_the_last_own < flood / 2);
  }

  TEST_CASE("thread_pool: the result of its last job may end its life") {
    for (int round = 0; round != 300; ++round) {
      std::atomic<int> n{0};
      {
        thread_pool pool{1};
        sync_wait(schedule_on(pool, count(n)));
      }
      CHECK(n == 1);
    }
  }

  TEST_CASE("thread_pool: a job that blocks for others may do so while the pool is destroyed") {
    for (int round = 0; round != 200; ++round) {
      std::atomic<int> n{0};
      std::binary_semaphore begun{0};
      async_scope scope;
      {
        thread_pool pool{2};
        scope.spawn(schedule_on(
            pool, [](thread_pool& p, std::binary_semaphore& b, std::atomic<int>& c) -> task<> {
              b.release();
              for (int i = 0; i != 5; ++i) {
                async_scope inner;
                inner.spawn(schedule_on(p, count(c)));
                while (c != i + 1) std::this_thread::yield();
                sync_wait(inner.join());
              }
              co_return;
            }(pool, begun, n)));
        begun.acquire();
      }
      CHECK(n == 5);
      sync_wait(scope.join());
    }
  }

  TEST_CASE("thread_pool: shared() is one pool of at least two threads") {
    thread_pool& pool = thread_pool::shared();
    CHECK(&pool == &thread_pool::shared());
    CHECK(pool.size() >= 2);
    CHECK(pool.size() >= std::thread::hardware_concurrency());
    const std::thread::id there = sync_wait(schedule_on(
        pool, []() -> task<std::thread::id> { co_return std::this_thread::get_id(); }()));
    CHECK(there != std::this_thread::get_id());
  }

  TEST_CASE("thread_pool: work posted from a thread to several pools runs on each") {
    thread_pool a{1};
    thread_pool b{1};
    std::atomic<int> n{0};
    sync_wait(schedule_on(a, [](thread_pool& other, std::atomic<int>& c) -> task<> {
      const std::thread::id here = std::this_thread::get_id();
      std::thread::id there;
      co_await schedule_on(other, [](std::thread::id& at) -> task<> {
        at = std::this_thread::get_id();
        co_return;
      }(there));
      if (here == std::this_thread::get_id() && here != there) ++c;
    }(b, n)));
    CHECK(n == 1);
  }
}
