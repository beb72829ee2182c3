// completion.cpp - what does it cost to wait for a stream that has nothing to do?
//
// One coroutine on one thread, which is also that of the stream. A hop is what it does anyway: it
// goes to the end of the thread's queue.

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

// Notes that it has run.
class note : public turnstile::job {
 public:
  note() noexcept : job(&run) {}
  bool has_run() const noexcept { return has_run_; }
  void take() noexcept { has_run_ = true; }

 private:
  static void run(job& self) noexcept { static_cast<note&>(self).take(); }

  bool has_run_ = false;
};

class hop {
 public:
  static constexpr std::string_view name = "thread_pool_hop";
  explicit hop(turnstile::thread_pool& p) : pool_(&p) {}
  void give(note& n) { pool_->post(n); }
  auto wait() { return turnstile::yield(); }

 private:
  turnstile::thread_pool* pool_;
};

class on_a_stream {
 public:
  explicit on_a_stream(const turnstile::stream_options& options)
      : stream_(turnstile::device::host(), options) {}
  void give(note& n) {
    stream_.enqueue([&n] { n.take(); });
  }
  auto wait() { return stream_.completion(); }

 private:
  turnstile::stream stream_;
};

struct pushed : on_a_stream {
  static constexpr std::string_view name = "turnstile_completion";
  explicit pushed(turnstile::thread_pool& p) : on_a_stream({.executor = p}) {}
};

struct polled : on_a_stream {
  static constexpr std::string_view name = "turnstile_completion_polled";
  explicit polled(turnstile::thread_pool& p) : on_a_stream({.executor = p, .polled = true}) {}
};

template <class Contender>
turnstile::task<> wait_often(Contender& c, std::size_t turns) {
  for (std::size_t i = 0; i != turns; ++i) co_await c.wait();
}

// Whether a wait is one: what was given before it has run when it ends.
template <class Contender>
turnstile::task<bool> waits_for_it(Contender& c) {
  note given;
  c.give(given);
  const bool was_early = given.has_run();
  co_await c.wait();
  co_return given.has_run() && !was_early;
}

template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  turnstile::thread_pool pool(1);
  Contender contender(pool);
  for (auto _ : state) {
    const auto take = [&](std::size_t turns) {
      return bench::time_of([&] {
        turnstile::sync_wait(turnstile::schedule_on(pool, wait_often(contender, turns)));
      });
    };
    const std::size_t turns = bench::turns_that_fill(bench::round_length(s), s.clients, take);
    const nanoseconds took = take(turns);
    if (!turnstile::sync_wait(turnstile::schedule_on(pool, waits_for_it(contender)))) {
      return bench::refuse(state,
                           "wrong answer: what was given before a wait has not run after it");
    }
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
