// philosophers.cpp - everybody needs two chopsticks that others need too, and nobody ever stops.
//
// Seats are asked for in every order, so that a lock taken one by one would come to a standstill.
// The chopsticks' numbers are plain variables: two neighbours at once would leave them wrong, and
// the thread sanitizer would see it.

#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <cstdint>
#include <deque>
#include <doctest/doctest.h>
#include <tuple>

using namespace turnstile;
using stress::dice;

namespace {

struct chopstick {
  critical_section section;
  std::uint64_t used = 0;
  bool in_use = false;
  int wrong = 0;

  void take() noexcept {
    if (in_use) ++wrong;
    in_use = true;
  }
  void put_back() noexcept {
    in_use = false;
    ++used;
  }
};

class table {
 public:
  explicit table(std::size_t seats) : chopsticks_(seats) {}

  task<> dine(std::size_t seat, int meals) {
    dice d(static_cast<std::uint32_t>(seat));
    chopstick& left = chopsticks_[seat];
    chopstick& right = chopsticks_[(seat + 1) % chopsticks_.size()];
    for (int i = 0; i != meals; ++i) {
      switch (d.below(4)) {
        case 0: co_await quick_meal(right, left); break;
        case 1: co_await slow_meal(left, right); break;
        case 2: co_await with_a_third(left, right, chopsticks_[d.below(count())]); break;
        default: co_await quick_meal(left, right); break;
      }
      if (d.one_in(8)) co_await look(left);
    }
  }

  // After the end.
  std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const chopstick& f : chopsticks_) sum += f.used;
    return sum;
  }
  std::uint64_t executions() const {
    std::uint64_t sum = 0;
    for (const chopstick& f : chopsticks_) sum += f.section.statistics().executions;
    return sum;
  }
  bool all_put_back() const {
    for (const chopstick& f : chopsticks_) {
      if (f.in_use || f.wrong != 0 || f.section.statistics().held) return false;
    }
    return true;
  }

 private:
  unsigned count() const { return static_cast<unsigned>(chopsticks_.size()); }

  static task<> quick_meal(chopstick& a, chopstick& b) {
    auto eat = [&] {
      a.take();
      b.take();
      b.put_back();
      a.put_back();
    };
    co_await execute(std::tie(a.section, b.section), eat);
  }

  static task<> slow_meal(chopstick& a, chopstick& b) {
    auto eat = [&]() -> task<> {
      a.take();
      b.take();
      co_await yield();
      b.put_back();
      a.put_back();
    };
    co_await execute(std::tie(a.section, b.section), eat);
  }

  // The third may be one of the two.
  static task<> with_a_third(chopstick& a, chopstick& b, chopstick& c) {
    const bool again = &c == &a || &c == &b;
    auto eat = [&] {
      a.take();
      b.take();
      if (!again) {
        c.take();
        c.put_back();
      }
      b.put_back();
      a.put_back();
    };
    co_await execute(std::tie(c.section, a.section, b.section), eat);
  }

  static task<> look(chopstick& f) {
    co_await f.section.execute([&f] {
      f.take();
      f.put_back();
    });
  }

  std::deque<chopstick> chopsticks_;
};

void dine(std::size_t seats, int meals) {
  thread_pool pool{4};
  table t(seats);
  {
    async_scope scope{{.executor = pool}};
    for (std::size_t seat = 0; seat != seats; ++seat) scope.spawn(t.dine(seat, meals));
    for (std::size_t seat = 0; seat != seats; ++seat) sync_wait(t.dine(seat, meals / 10));
    sync_wait(scope.join());
  }
  CHECK(t.all_put_back());
  CHECK(t.used() == t.executions());
  const auto all = static_cast<std::uint64_t>(meals + meals / 10);
  CHECK(t.used() >= seats * all * 2);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("philosophers: five never stop") {
    dine(5, stress::times_scale(stress::sanitized ? 1'000 : 10'000));
  }

  TEST_CASE("philosophers: sixty-four never stop") {
    dine(64, stress::times_scale(stress::sanitized ? 100 : 1'000));
  }
}
