// completion.cpp - what does it cost to wait for a stream that has nothing to do?
//
// One coroutine on one thread, which is also that of the stream. A hop is what it does anyway: it goes to
// the end of the thread's queue.

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <turnstile/turnstile.hpp>

#include <benchmark/benchmark.h>
#include <cstddef>
#include <string_view>

namespace {

using bench::nanoseconds;
using bench::shape;

struct hop {
  static constexpr std::string_view name = "thread_pool_hop";
  explicit hop(turnstile::thread_pool&) {}
  auto wait() { return turnstile::yield(); }
};

struct pushed {
  static constexpr std::string_view name = "turnstile_completion";
  explicit pushed(turnstile::thread_pool& p) : stream(turnstile::device::host(), {.executor = p}) {}
  auto wait() { return stream.completion(); }
  turnstile::stream stream;
};

struct polled {
  static constexpr std::string_view name = "turnstile_completion_polled";
  explicit polled(turnstile::thread_pool& p)
      : stream(turnstile::device::host(), {.executor = p, .polled = true}) {}
  auto wait() { return stream.completion(); }
  turnstile::stream stream;
};

template <class Contender>
turnstile::task<std::size_t> wait_often(Contender& c, std::size_t turns) {
  std::size_t waited = 0;
  for (std::size_t i = 0; i != turns; ++i) {
    co_await c.wait();
    ++waited;
  }
  co_return waited;
}

template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  turnstile::thread_pool pool(1);
  Contender contender(pool);
  for (auto _ : state) {
    bool right = true;
    const auto take = [&](std::size_t turns) {
      std::size_t waited = 0;
      const nanoseconds took = bench::time_of([&] {
        waited = turnstile::sync_wait(turnstile::schedule_on(pool, wait_often(contender, turns)));
      });
      right = right && waited == turns;
      return took;
    };
    const std::size_t turns = bench::turns_that_fill(bench::round_length(s), s.clients, take);
    const nanoseconds took = take(turns);
    if (!right) return bench::refuse(state, "wrong answer: not every wait has ended");
    bench::report_time(state, took, turns);
  }
  state.counters["clients_are_threads"] = 0;
  state.counters["against"] = static_cast<double>(s.against);
}

template <class Contender>
bool ask() {
  const shape s{.threads = 1, .clients = 1, .against = 1};
  bench::cases().push_back({"completion", Contender::name, s, measure<Contender>});
  return true;
}

const bool asked_hop = ask<hop>();
const bool asked_pushed = ask<pushed>();
const bool asked_polled = ask<polled>();

}  // namespace
