// many.cpp - large numbers: of bodies that wait, of tasks that must go on meanwhile, of sections.

#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <doctest/doctest.h>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

using namespace turnstile;
using support::gate;

namespace {

task<> hold_across(critical_section& cs, gate& g) {
  auto body = [&g]() -> task<> { co_await g; };
  co_await cs.execute(body);
}

task<> other_work(std::latch& done) {
  for (int i = 0; i != 3; ++i) co_await yield();
  done.count_down();
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("many: a pool of one thread runs 1000 other tasks while a section is held by a wait") {
    thread_pool pool{1};
    critical_section cs;
    gate g;
    std::latch done{1000};
    async_scope scope{{.executor = pool}};
    scope.spawn(hold_across(cs, g));
    for (int i = 0; i != 10; ++i) scope.spawn(hold_across(cs, g));
    while (g.waiting() == 0) std::this_thread::yield();
    for (int i = 0; i != 1000; ++i) scope.spawn(other_work(done));
    done.wait();
    CHECK(cs.statistics().held);
    CHECK(cs.statistics().executions == 0);
    g.open();
    sync_wait(scope.join());
    CHECK(cs.statistics().executions == 11);
  }

  TEST_CASE("many: a million bodies wait at once, and run in order in a flat stack") {
    constexpr long n = 1000000;
    critical_section cs;
    section_guard busy = support::hold(cs);
    std::atomic<std::size_t> deepest{0};
    long next = 0;
    long out_of_order = 0;
    for (long i = 0; i != n; ++i) {
      cs.post([&, i] {
        thread_local support::stack_meter meter;
        meter.look();
        deepest = std::max(deepest.load(), meter.used());
        out_of_order += i == next++ ? 0 : 1;
      });
    }
    CHECK(cs.statistics().waiters == n);
    busy.unlock();
    sync_wait(cs.close());
    CHECK(next == n);
    CHECK(out_of_order == 0);
    CHECK(deepest < 64 * 1024);
    CHECK(cs.statistics().executions == n + 1);
    CHECK(cs.statistics().most_waiters == n);
  }

  TEST_CASE("many: a hundred thousand coroutines wait at once and all come back") {
    constexpr int n = 100000;
    thread_pool pool{2};
    critical_section cs;
    section_guard busy = support::hold(cs);
    long ran = 0;
    std::atomic<long> came_back{0};
    async_scope scope{{.executor = pool}};
    for (int i = 0; i != n; ++i) {
      scope.spawn([](critical_section& s, long& r, std::atomic<long>& c) -> task<> {
        co_await s.execute([&r] { ++r; });
        ++c;
      }(cs, ran, came_back));
    }
    support::wait_for_waiters(cs, n);
    busy.unlock();
    sync_wait(scope.join());
    CHECK(ran == n);
    CHECK(came_back == n);
  }

  TEST_CASE("many: coroutines on a pool move sums between sections, and nothing is lost") {
    thread_pool pool{2};
    constexpr std::size_t accounts = 8;
    std::vector<std::unique_ptr<synchronized<long>>> all;
    for (std::size_t i = 0; i != accounts; ++i) {
      all.push_back(std::make_unique<synchronized<long>>(1000));
    }
    async_scope scope{{.executor = pool}};
    for (std::size_t t = 0; t != 64; ++t) {
      scope.spawn([](auto& list, std::size_t seed) -> task<> {
        for (std::size_t i = 0; i != 100; ++i) {
          auto& from = *list[(seed + i) % accounts];
          auto& to = *list[(seed * 3 + i * 5 + 1) % accounts];
          const long taken = co_await from.execute([](long& x) {
            const long one = x > 0 ? 1 : 0;
            x -= one;
            return one;
          });
          co_await to.execute([taken](long& x) { x += taken; });
        }
      }(all, t));
    }
    sync_wait(scope.join());
    long sum = 0;
    for (auto& account : all) sum += sync_wait(account->execute([](long& x) { return x; }));
    CHECK(sum == 8000);
  }
}
