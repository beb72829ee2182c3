// tasks.hpp - what do the tasks and the pool cost, without any section?
//
// fib        fork and join: fib(n) is the sum of two tasks, to n < 2, with no cut-off; per call
// skynet     a tree of ten children each, to so many leaves, which give their numbers; per task
// ping_pong  two tasks on two threads, one of which waits while the other goes on; per hand-over
//
// A contender is made from the letters of a case, has a name, and some of: long fib(unsigned n),
// long skynet(long leaves), std::size_t ping_pong(std::size_t hits).
#pragma once

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <benchmark/benchmark.h>
#include <cstddef>
#include <latch>
#include <string_view>

namespace bench::tasks {

constexpr long fibonacci(unsigned n) noexcept {
  long now = 0;
  long next = 1;
  for (; n != 0; --n) {
    const long sum = now + next;
    now = next;
    next = sum;
  }
  return now;
}
static_assert(fibonacci(10) == 55);

inline constexpr unsigned fib_of = 25;
inline constexpr std::size_t fib_calls = 2 * static_cast<std::size_t>(fibonacci(fib_of + 1)) - 1;

inline constexpr long children = 10;
inline constexpr long leaves = 100'000;
inline constexpr long sum_of_leaves = leaves * (leaves - 1) / 2;
inline constexpr std::size_t tree = 111'111;  // 1 + 10 + ... + 100 000

inline constexpr std::size_t hits = 20'000;

// The ball of ping_pong: two players hit it in turn. The one who waits for it is out of the way: a
// hand-over makes the other one runnable, and nothing else does.
class ball {
 public:
  explicit ball(std::size_t wanted) noexcept : wanted_(wanted) {}

  bool is_over() const noexcept { return hits_ == wanted_; }
  // By player 0 or 1, before it is over.
  void hit(std::size_t player) noexcept {
    if (hits_++ % 2 == player) ++right_;
  }
  std::size_t right() const noexcept { return right_; }

 private:
  const std::size_t wanted_;
  std::size_t hits_ = 0;
  std::size_t right_ = 0;
};

// One player, as a coroutine of the contender's. `co_await player.wait(then)` suspends it, then
// calls `then`, and player.post() makes it go on. The one who is given `first_waits` waits before
// it hits, and counts that down.
template <class Coroutine, class Player>
Coroutine play(ball& ball, std::size_t number, Player& me, Player& other, std::latch* first_waits) {
  if (first_waits != nullptr) co_await me.wait([first_waits] { first_waits->count_down(); });
  while (!ball.is_over()) {
    ball.hit(number);
    if (ball.is_over()) {
      other.post();
    } else {
      co_await me.wait([&other] { other.post(); });
    }
  }
}

// Once to warm up, and then as often as fills a round.
template <class Contender, class Work>
void measure(benchmark::State& state, const shape& s, std::size_t operations, Work work) {
  Contender contender(s);
  for (auto _ : state) {
    bool right = work(contender);
    std::size_t times = 0;
    nanoseconds took{0};
    for (; took < round_length(s); ++times) {
      took += time_of([&] { right = work(contender) && right; });
    }
    if (!right) return refuse(state, "wrong answer: a task was lost");
    report_time(state, took, times * operations);
  }
  state.counters["clients_are_threads"] = 0;
  state.counters["against"] = static_cast<double>(s.against);
}

template <class Contender, class Work>
void ask_one(std::string_view question, std::size_t clients, std::size_t operations, Work work) {
  cases().push_back({question,
                     Contender::name,
                     {.threads = 2, .clients = clients, .against = 2},
                     [=](benchmark::State& state, const shape& s) {
                       measure<Contender>(state, s, operations, work);
                     }});
}

template <class Contender>
bool ask() {
  if constexpr (requires(Contender c) { c.fib(fib_of); }) {
    ask_one<Contender>("fib", 1, fib_calls,
                       [](Contender& c) { return c.fib(fib_of) == fibonacci(fib_of); });
  }
  if constexpr (requires(Contender c) { c.skynet(leaves); }) {
    ask_one<Contender>("skynet", 1, tree,
                       [](Contender& c) { return c.skynet(leaves) == sum_of_leaves; });
  }
  if constexpr (requires(Contender c) { c.ping_pong(hits); }) {
    ask_one<Contender>("ping_pong", 2, hits,
                       [](Contender& c) { return c.ping_pong(hits) == hits; });
  }
  return true;
}

}  // namespace bench::tasks
