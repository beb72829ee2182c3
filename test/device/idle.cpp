// idle.cpp - what it costs to wait for a device: processor time, and nobody else's turn.

#include "support/processor_time.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <thread>

using namespace turnstile;
using namespace std::chrono_literals;
using support::processor_time;

namespace {

constexpr auto waiting_time = 50ms;

// Coroutines of a pool, each of which waits for a polled stream of its own, until the test lets
// them go on.
class waiting_coroutines {
 public:
  waiting_coroutines(thread_pool& on, std::size_t n) : scope_({.executor = on}) {
    stream nobody_runs(device::host(), {.executor = unrun_});
    const event let_go = nobody_runs.record();
    for (std::size_t i = 0; i != n; ++i) {
      stream& s = streams_.emplace_back(device::host(), stream_options{.polled = true});
      s.wait(let_go);
      scope_.spawn(wait(s));
    }
    while (begun_ != n) std::this_thread::yield();
  }
  waiting_coroutines(const waiting_coroutines&) = delete;
  waiting_coroutines& operator=(const waiting_coroutines&) = delete;

  std::size_t ended() const { return ended_; }

  void let_go() {
    unrun_.run();
    sync_wait(scope_.join());
  }

 private:
  task<> wait(stream& s) {
    ++begun_;
    co_await s.completion();
    ++ended_;
  }

  manual_executor unrun_;
  std::deque<stream> streams_;
  std::atomic<std::size_t> begun_{0};
  std::atomic<std::size_t> ended_{0};
  async_scope scope_;
};

// A time measured on both clocks.
struct span {
  std::chrono::nanoseconds of_processors;
  std::chrono::nanoseconds passed;
};

// The interval is what is measured, so it has to pass.
template <class F>
span measured(F f) {
  const auto began = std::chrono::steady_clock::now();
  const auto before = processor_time();
  f();
  return {processor_time() - before, std::chrono::steady_clock::now() - began};
}

span spent_waiting(std::size_t awaits) {
  thread_pool pool{2};
  waiting_coroutines all(pool, awaits);
  const span spent = measured([] { std::this_thread::sleep_for(waiting_time); });
  CHECK(all.ended() == 0);
  all.let_go();
  CHECK(all.ended() == awaits);
  return spent;
}

task<> make_steps(std::size_t n) {
  while (n-- != 0) co_await yield();
}

}  // namespace

TEST_SUITE("device") {
  TEST_CASE("idle: awaits that are pending for 50 ms do not keep a core busy") {
    for (const std::size_t awaits : {1, 16, 256}) {
      const span spent = spent_waiting(awaits);
      const std::chrono::duration<double, std::milli> busy = spent.of_processors;
      MESSAGE(awaits, " awaits pending for 50 ms take ", busy.count(), " ms of processor time");
      CHECK(spent.of_processors < spent.passed / 2);
    }
  }

  TEST_CASE("idle: with nothing pending any more no processor time is used") {
    spent_waiting(16);
    std::this_thread::sleep_for(waiting_time);  // threads lie down
    const span spent = measured([] { std::this_thread::sleep_for(200ms); });
    CHECK(spent.of_processors < spent.passed / 5);
  }

  TEST_CASE("idle: other work of the pool goes on while awaits are pending") {
    for (const std::size_t awaits : {1, 16, 256}) {
      thread_pool pool{2};
      waiting_coroutines all(pool, awaits);
      async_scope scope{{.executor = pool}};
      for (int i = 0; i != 2; ++i) scope.spawn(make_steps(1000));
      sync_wait(scope.join());
      CHECK(all.ended() == 0);
      all.let_go();
      CHECK(all.ended() == awaits);
    }
  }
}
