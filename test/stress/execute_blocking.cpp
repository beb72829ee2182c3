// execute_blocking.cpp - plain threads and workers of pools that block in a section's line, among
// coroutines and posted bodies.
//
// A wake-up that is lost shows as a test that does not end. The data is plain variables: two bodies
// at once would leave them wrong, and the thread sanitizer would see it.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <latch>
#include <stop_token>
#include <thread>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using stress::dice;

namespace {

// Long enough that a few of them spend what time a thread may serve others.
void work_for(std::chrono::nanoseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
  }
}

class numbers {
 public:
  explicit numbers(section_options options = {}) : cs(options) {}

  auto next(dice& d) {
    const bool is_long = d.one_in(500);
    return [this, is_long] {
      if (is_long) work_for(30us);
      return ++last;
    };
  }

  critical_section cs;
  int last = 0;
};

// One thread's requests: what they give rises.
class asker {
  auto plain() { return all_->next(dice_); }
  auto waits() {
    return [this]() -> task<int> {
      co_await yield();
      co_return ++all_->last;
    };
  }

 public:
  asker(numbers& all, int who) : all_(&all), dice_(static_cast<std::uint32_t>(who)) {}

  void ask() {
    switch (dice_.below(8)) {
      case 0: return note(all_->cs.execute_blocking(waits()));
      case 1: return note(ask_as_a_coroutine());
      case 2: return ask_withdrawable();
      default: return note(all_->cs.execute_blocking(plain()));
    }
  }

  int done() const { return done_; }
  int backwards() const { return backwards_; }

 private:
  int ask_as_a_coroutine() {
    auto body = plain();
    return sync_wait(all_->cs.execute(body));
  }

  void ask_withdrawable() {
    std::stop_source stop;
    std::jthread stops;
    if (dice_.one_in(8)) stops = std::jthread([&stop] { stop.request_stop(); });
    try {
      note(all_->cs.execute_blocking(plain(), {.stop = stop.get_token()}));
    } catch (const operation_cancelled&) {
    }
  }

  void note(int now) {
    ++done_;
    if (now <= before_) ++backwards_;
    before_ = now;
  }

  numbers* all_;
  dice dice_;
  int before_ = 0;
  int done_ = 0;
  int backwards_ = 0;
};

void together_with_coroutines(section_options options, int threads, int each) {
  numbers all(options);
  thread_pool pool(2);
  async_scope scope{{.executor = pool}};
  const int coroutines = 16;
  const auto live = [&all, each](int who) -> task<> {
    dice d(static_cast<std::uint32_t>(1000 + who));
    for (int i = 0; i != each; ++i) {
      auto body = all.next(d);
      co_await all.cs.execute(body);
      if (d.one_in(16)) co_await yield();
    }
  };
  for (int i = 0; i != coroutines; ++i) scope.spawn(live(i));
  std::vector<asker> askers;
  for (int t = 0; t != threads; ++t) askers.emplace_back(all, t);
  stress::together(threads, [&](int t) {
    for (int i = 0; i != each; ++i) askers[static_cast<std::size_t>(t)].ask();
  });
  sync_wait(scope.join());
  int done = coroutines * each;
  for (const asker& a : askers) {
    done += a.done();
    CHECK(a.backwards() == 0);
  }
  CHECK(all.last == done);
  CHECK(all.cs.statistics().executions == static_cast<std::uint64_t>(done));
  CHECK(all.cs.statistics().waiters == 0);
}

// A job that blocks its worker, again and again.
struct blocking_job : job {
  blocking_job(numbers& n, int many, std::latch& end) noexcept
      : job(&run_it), all(&n), each(many), over(&end) {}
  static void run_it(job& j) noexcept {
    auto& self = static_cast<blocking_job&>(j);
    dice d(static_cast<std::uint32_t>(2000 + self.each));
    for (int i = 0; i != self.each; ++i) self.all->cs.execute_blocking(self.all->next(d));
    self.over->count_down();
  }

  numbers* all;
  int each;
  std::latch* over;
};

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("execute_blocking: many threads and coroutines on one section") {
    const int each = stress::times_scale(stress::sanitized ? 300 : 3000);
    for (const int threads : {1, 2, 8}) together_with_coroutines({}, threads, each);
  }

  TEST_CASE("execute_blocking: many threads and coroutines on a section that lives on a pool") {
    const int each = stress::times_scale(stress::sanitized ? 200 : 1000);
    thread_pool pool(2);
    for (const int threads : {2, 8}) together_with_coroutines({.executor = pool}, threads, each);
  }

  TEST_CASE(
      "execute_blocking: all workers of a pool block, next to plain threads and posted work") {
    const int each = stress::times_scale(stress::sanitized ? 500 : 5000);
    numbers all;
    thread_pool pool(2);
    std::latch over(2);
    std::array<blocking_job, 2> jobs{blocking_job(all, each, over),
                                     blocking_job(all, each + 1, over)};
    for (blocking_job& j : jobs) executor_ref(pool).post(j);
    stress::together(3, [&](int t) {
      dice d(static_cast<std::uint32_t>(t));
      for (int i = 0; i != each; ++i) {
        if (t == 2) {
          all.cs.post([&all] { ++all.last; });
        } else {
          all.cs.execute_blocking(all.next(d));
        }
      }
    });
    over.wait();
    CHECK(all.cs.execute_blocking([&] { return all.last; }) == 5 * each + 1);
  }

  TEST_CASE("execute_blocking: one section inside another, in any order") {
    const int each = stress::times_scale(stress::sanitized ? 500 : 20'000);
    for (const int threads : {2, 3, 8}) {
      std::array<numbers, 3> all;
      std::atomic<int> refused{0};
      stress::together(threads, [&](int t) {
        dice d(static_cast<std::uint32_t>(t));
        for (int i = 0; i != each; ++i) {
          const unsigned first = d.below(3);
          numbers& outer = all[first];
          numbers& inner = all[(first + 1 + d.below(2)) % 3];
          outer.cs.execute_blocking([&] {
            ++outer.last;
            try {
              inner.cs.execute_blocking([&inner] { ++inner.last; });
            } catch (const deadlock_error&) {
              ++refused;
            }
          });
        }
      });
      int ran = 0;
      for (numbers& n : all) ran += n.cs.execute_blocking([&n] { return n.last; });
      CHECK(ran == 2 * threads * each - refused);
    }
  }

  TEST_CASE("execute_blocking: who is served last ends the section") {
    const int rounds = stress::times_scale(stress::sanitized ? 300 : 3000);
    int wrong = 0;
    for (int i = 0; i != rounds; ++i) {
      auto* const cs = new critical_section;
      std::atomic<int> left{3};
      int ran = 0;
      stress::together(3, [&](int) {
        cs->execute_blocking([&ran] { ++ran; });
        if (left.fetch_sub(1) == 1) {
          if (ran != 3) ++wrong;
          delete cs;
        }
      });
    }
    CHECK(wrong == 0);
  }
}
