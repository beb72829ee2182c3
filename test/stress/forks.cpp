// forks.cpp - trees of forks on several workers: every one runs once, whoever takes it.

#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

task<long> fibonacci(unsigned n) {
  if (n < 2) co_return n;
  const auto [one, two] = co_await when_all(fork(fibonacci(n - 1)), fibonacci(n - 2));
  co_return one + two;
}

// A tree that its seed decides, with forks, posts and sections in it. Its size is known beforehand.
struct shape {
  std::uint32_t seed;
  int depth;

  std::uint32_t roll(std::uint32_t n) const noexcept { return seed * 2654435769u % n; }
  std::uint32_t children() const noexcept { return depth == 0 ? 0 : seed / 7 % 6; }
  shape child(std::uint32_t i) const noexcept {
    return {seed * 1664525u + i * 40503u + 1013904223u, depth - 1};
  }
};

long size_of(shape s) {
  long n = 1;
  for (std::uint32_t i = 0; i != s.children(); ++i) n += size_of(s.child(i));
  return n;
}

struct grove {
  critical_section section{"grove"};
  long counted = 0;
};

task<long> grow(shape s, grove& g) {
  if (s.roll(4) == 0) co_await yield();
  co_await g.section.execute([&g] { ++g.counted; });
  std::vector<forked<task<long>>> forks;
  std::vector<task<long>> others;
  for (std::uint32_t i = 0; i != s.children(); ++i) {
    if (i % 3 == 2) {
      others.push_back(grow(s.child(i), g));
    } else {
      forks.push_back(fork(grow(s.child(i), g)));
    }
  }
  const auto [a, b] = co_await when_all(when_all(std::move(forks)), when_all(std::move(others)));
  long n = 1;
  for (const long one : a) n += one;
  for (const long one : b) n += one;
  co_return n;
}

task<long> grow_or_fail(shape s, std::atomic<int>& ended) {
  if (s.depth == 0) {
    ++ended;
    if (s.roll(3) == 0) throw std::runtime_error("a leaf");
    co_return 1;
  }
  const auto [one, two] =
      co_await when_all(fork(grow_or_fail(s.child(0), ended)), grow_or_fail(s.child(1), ended));
  co_return one + two;
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("forks: sums of trees are exact, on more workers than there are cores") {
    thread_pool pool(4);
    const int rounds = stress::times_scale(stress::sanitized ? 3 : 60);
    for (int i = 0; i != rounds; ++i) {
      CHECK(sync_wait(schedule_on(pool, fibonacci(18))) == 2584);
    }
  }

  TEST_CASE("forks: several trees at a time, in pools that come and go") {
    dice d(1);
    const int rounds = stress::times_scale(stress::sanitized ? 40 : 400);
    for (int i = 0; i != rounds; ++i) {
      auto pool = std::make_unique<thread_pool>(1 + d.below(4));
      const unsigned n = 5 + d.below(8);
      const auto both = [](unsigned of) -> task<long> {
        const auto [one, two] = co_await when_all(fork(fibonacci(of)), fork(fibonacci(of)));
        co_return one - two;
      };
      async_scope scope({.executor = *pool});
      for (int k = 0; k != 3; ++k) scope.spawn(fibonacci(n));
      CHECK(sync_wait(schedule_on(*pool, both(n))) == 0);
      pool.reset();
      sync_wait(scope.join());
    }
  }

  TEST_CASE("forks: beside posts, waits in sections and children that are not forked") {
    thread_pool pool(3);
    dice d(2);
    const int rounds = stress::times_scale(stress::sanitized ? 20 : 200);
    for (int i = 0; i != rounds; ++i) {
      const shape s{d.below(1u << 30), 5};
      grove g;
      const long size = size_of(s);
      CHECK(sync_wait(schedule_on(pool, grow(s, g))) == size);
      CHECK(g.counted == size);
    }
  }

  TEST_CASE("forks: errors come out when all have ended") {
    thread_pool pool(3);
    dice d(3);
    const int rounds = stress::times_scale(stress::sanitized ? 20 : 300);
    for (int i = 0; i != rounds; ++i) {
      std::atomic<int> ended{0};
      const shape s{d.below(1u << 30), 7};
      try {
        CHECK(sync_wait(schedule_on(pool, grow_or_fail(s, ended))) == 128);
      } catch (const std::runtime_error&) {
      }
      CHECK(ended == 128);
    }
  }
}
