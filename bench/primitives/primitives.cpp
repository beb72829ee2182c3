// primitives.cpp - what an execute is made of, one by one, and so what the hardware and the system
// ask for.

#include "support/round_trip.hpp"

#include <atomic>
#include <benchmark/benchmark.h>
#include <chrono>
#include <coroutine>
#include <exception>
#include <mutex>
#include <stop_token>
#include <thread>

#if defined(__linux__) && __has_include(<linux/membarrier.h>)
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#define BENCH_MEMBARRIER 1
#endif

namespace {

using benchmark::State;

// Without a second thread, glibc's mutex and some others leave out what makes them dear.
class company {
 public:
  explicit company(bool busy = false)
      : thread_([busy](const std::stop_token& end) {
          while (!end.stop_requested()) {
            if (!busy) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          }
        }) {}

 private:
  std::jthread thread_;
};

struct coroutine {
  struct promise_type {
    coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };

  std::coroutine_handle<promise_type> handle;
};

coroutine suspends_for_ever() {
  for (;;) co_await std::suspend_always();
}

coroutine ends(int& times) {
  ++times;
  co_return;
}

std::atomic<int> word{0};

void fetch_add(State& state) {
  const company other;
  for (auto _ : state) word.fetch_add(1, std::memory_order_acquire);
}
BENCHMARK(fetch_add);

void fetch_add_and_fetch_sub(State& state) {
  const company other;
  for (auto _ : state) {
    word.fetch_add(1, std::memory_order_acquire);
    word.fetch_sub(1, std::memory_order_release);
  }
}
BENCHMARK(fetch_add_and_fetch_sub);

void full_fence(State& state) {
  for (auto _ : state) {
    word.store(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
BENCHMARK(full_fence);

void std_mutex_lock_and_unlock(State& state) {
  const company other;
  std::mutex mutex;
  for (auto _ : state) {
    mutex.lock();
    benchmark::ClobberMemory();
    mutex.unlock();
  }
}
BENCHMARK(std_mutex_lock_and_unlock);

void coroutine_resume_and_suspend(State& state) {
  const coroutine c = suspends_for_ever();
  for (auto _ : state) c.handle.resume();
  c.handle.destroy();
}
BENCHMARK(coroutine_resume_and_suspend);

void coroutine_make_run_and_destroy(State& state) {
  int times = 0;
  for (auto _ : state) {
    const coroutine c = ends(times);
    benchmark::DoNotOptimize(c.handle.address());
    c.handle.resume();
    c.handle.destroy();
  }
}
BENCHMARK(coroutine_make_run_and_destroy);

void steady_clock_now(State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(std::chrono::steady_clock::now());
}
BENCHMARK(steady_clock_now);

// An iteration is a few thousand trips, and their median.
void line_to_another_core_and_back(State& state) {
  for (auto _ : state) state.SetIterationTime(bench::line_round_trip().count() * 1e-9);
}
BENCHMARK(line_to_another_core_and_back)->UseManualTime()->Iterations(31);

#if defined(BENCH_MEMBARRIER)
void membarrier(State& state) {
  ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  const company other(state.range(0) != 0);
  for (auto _ : state) {
    if (::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
      return state.SkipWithError("membarrier is refused");
    }
  }
}
BENCHMARK(membarrier)->ArgName("others_running")->Arg(0)->Arg(1)->UseRealTime();
#endif

}  // namespace

BENCHMARK_MAIN();
