// fibers.cpp - fibers, coroutines and plain threads in the same sections, with stops: whatever was
// asked for ends exactly once, and no two are inside.

#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;

namespace {

constexpr int turns = 60;
constexpr int fibers_at_once = 48;

// Counts, and notices company.
struct guarded_count {
  void enter() {
    if (inside_.exchange(true)) company_ = true;
    ++n;
  }
  void leave() { inside_ = false; }

  long n = 0;
  bool had_company() const { return company_; }

 private:
  std::atomic<bool> inside_{false};
  std::atomic<bool> company_{false};
};

struct shared_place {
  critical_section cs;
  delegated_mutex m{cs};
  guarded_count count;
};

using numbers = std::minstd_rand;

class storm {
 public:
  explicit storm(std::uint32_t seed) : seed_(seed) {}

  void run() {
    std::vector<fiber<long>> fibers;
    async_scope scope{{.executor = pool_}};
    for (std::uint32_t i = 0; i != fibers_at_once; ++i) {
      fibers.push_back(pool_.spawn_fiber([this, i] { return live(numbers(seed_ + i + 1)); },
                                         {.stoppable = i % 2 == 0}));
      scope.spawn(ask(numbers(seed_ + 1000 + i)));
    }
    std::thread plain([this] { lock_as_thread(); });
    for (std::size_t i = 0; i < fibers.size(); i += 5) fibers[i].request_stop();
    long done = turns + fibers_at_once * turns;
    for (fiber<long>& f : fibers) done += sync_wait(std::move(f));
    sync_wait(scope.join());
    plain.join();
    check(done);
  }

 private:
  // Gives how often it was inside.
  long live(numbers random) {
    long done = 0;
    try {
      for (int i = 0; i != turns; ++i) {
        shared_place& p = places_[random() % places_.size()];
        switch (random() % 6) {
          case 0: turnstile::await(p.cs.execute([&] { inside(p); })); break;
          case 1: {
            const section_guard mine = turnstile::await(p.cs.lock());
            inside(p);
            break;
          }
          default: lock(p, random); break;
        }
        ++done;
        if (random() % 4 == 0) turnstile::await(yield());
      }
    } catch (const operation_cancelled&) {
    }
    return done;
  }

  // Some wait inside, and a stop may end that wait: then it was inside all the same.
  void lock(shared_place& p, numbers& random) {
    const std::scoped_lock mine(p.m);
    p.count.enter();
    switch (random() % 8) {
      case 0: turnstile::await(yield()); break;
      case 1: {
        const auto nap = std::chrono::microseconds(random() % 20);
        turnstile::await(schedule_on(other_pool_, rest(nap)));
        break;
      }
      default: break;
    }
    p.count.leave();
  }

  static task<> rest(std::chrono::microseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < end) co_await yield();
  }

  static void inside(shared_place& p) {
    p.count.enter();
    p.count.leave();
  }

  task<> ask(numbers random) {
    for (int i = 0; i != turns; ++i) {
      shared_place& p = places_[random() % places_.size()];
      co_await p.cs.execute([&p] { inside(p); });
    }
  }

  void lock_as_thread() {
    for (int i = 0; i != turns; ++i) {
      shared_place& p = places_[static_cast<std::size_t>(i) % places_.size()];
      const std::scoped_lock mine(p.m);
      inside(p);
    }
  }

  void check(long done) {
    long counted = 0;
    std::uint64_t executions = 0;
    for (shared_place& p : places_) {
      CHECK_FALSE(p.count.had_company());
      CHECK_FALSE(p.cs.statistics().held);
      counted += p.count.n;
      executions += p.cs.statistics().executions;
    }
    CHECK(counted == done);
    CHECK(executions == static_cast<std::uint64_t>(done));
  }

  const std::uint32_t seed_;
  thread_pool pool_{2};
  thread_pool other_pool_{1};
  std::array<shared_place, 3> places_;
};

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("fibers: with coroutines, threads and stops, in three sections") {
    stress::length_of_run rounds(stress::sanitized ? 5 : 20);
    for (std::uint32_t round = 0; rounds.goes_on(); ++round) {
      storm(stress::seed() + 100'000 * round).run();
    }
  }

  TEST_CASE("fibers: started and ended by the thousand, on several threads") {
    thread_pool pool(2);
    critical_section cs;
    long n = 0;
    const int rounds = stress::times_scale(stress::sanitized ? 20 : 200);
    const auto start_some = [&] {
      for (int i = 0; i != rounds; ++i) {
        std::array<std::optional<fiber<void>>, 8> some;
        for (auto& f : some) {
          f.emplace(pool.spawn_fiber([&] { turnstile::await(cs.execute([&] { ++n; })); }));
        }
        for (std::size_t k = 0; k != some.size(); k += 2) sync_wait(std::move(*some[k]));
      }
    };
    std::thread other(start_some);
    start_some();
    other.join();
    const auto all = std::uint64_t{16} * static_cast<std::uint64_t>(rounds);
    while (cs.statistics().executions != all) std::this_thread::yield();
    sync_wait(cs.close());
    CHECK(n == static_cast<long>(all));
  }
}
