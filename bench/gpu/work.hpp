// work.hpp - kernels that are numbered by one value in the memory of a GPU, and how long they take.
//
// A kernel gives whoever launched it a number, which it then adds one to. Every number has to be
// there when its wait ends, and the kernels have to run in the order in which they were launched.
#pragma once

#include "gpu/kernels.hpp"
#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <turnstile/cuda.hpp>

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <string>
#include <string_view>

namespace bench::gpu {

inline constexpr number no_answer = ~number{0};

// A CUDA stream of its own, as a program has it that does not use the library.
class plain_stream {
 public:
  plain_stream() { turnstile::check(cudaStreamCreateWithFlags(&s_, cudaStreamNonBlocking)); }
  ~plain_stream() { cudaStreamDestroy(s_); }
  plain_stream(const plain_stream&) = delete;
  plain_stream& operator=(const plain_stream&) = delete;

  cudaStream_t get() const noexcept { return s_; }
  void synchronize() const { turnstile::check(cudaStreamSynchronize(s_)); }

 private:
  cudaStream_t s_ = nullptr;
};

class work {
 public:
  work(const shape& s, std::size_t turns)
      : clients_(s.clients), turns_(turns), kernel_(microseconds_of(s.work)) {
    turnstile::check(cudaMalloc(reinterpret_cast<void**>(&value_), sizeof *value_));
    turnstile::check(cudaMemset(value_, 0, sizeof *value_));
    turnstile::check(cudaDeviceSynchronize());
    turnstile::check(cudaHostAlloc(reinterpret_cast<void**>(&answers_),
                                   operations() * sizeof *answers_, cudaHostAllocMapped));
    std::fill_n(answers_, operations(), no_answer);
  }
  ~work() {
    cudaFreeHost(answers_);
    cudaFree(value_);
  }
  work(const work&) = delete;
  work& operator=(const work&) = delete;

  std::size_t clients() const noexcept { return clients_; }
  std::size_t turns() const noexcept { return turns_; }
  std::size_t operations() const noexcept { return clients_ * turns_; }

  // By one at a time. The result is to be given to `is_there` when that kernel is complete.
  std::size_t launch(cudaStream_t s) {
    const std::size_t mine = launched_++;
    turnstile::check(launch_answer(value_, answers_ + mine, kernel_, s));
    return mine;
  }
  // From any thread; of several at once, each its own.
  bool is_there(std::size_t mine) const noexcept {
    return static_cast<volatile number*>(answers_)[mine] == mine;
  }

  // All in order, and each number once.
  bool is_right() const noexcept {
    for (std::size_t i = 0; i != operations(); ++i) {
      if (answers_[i] != i) return false;
    }
    return true;
  }

 private:
  const std::size_t clients_;
  const std::size_t turns_;
  const std::chrono::microseconds kernel_;
  std::size_t launched_ = 0;
  number* value_ = nullptr;    // the GPU's
  number* answers_ = nullptr;  // the host's, which the GPU writes
};

inline nanoseconds processor_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// The physical limit: one thread launches all of it, and waits once. Until a GPU is at its speed
// takes some ms.
inline nanoseconds time_of_a_launch(const shape& s) {
  const plain_stream stream;
  nanoseconds best = nanoseconds::max();
  for (int i = 0; i != 5; ++i) {
    work all(s, 512);
    const nanoseconds took = time_of([&] {
      for (std::size_t k = 0; k != all.operations(); ++k) all.launch(stream.get());
      stream.synchronize();
    });
    best = std::min(best, took / static_cast<double>(all.operations()));
  }
  return best;
}

// A contender has run(work&), which says whether each answer was there in time.
template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  const nanoseconds limit =
      time_of_a_launch({.threads = 1, .clients = 1, .against = 1, .work = s.work});
  Contender contender;
  for (auto _ : state) {
    bool right = true;
    nanoseconds busy{};
    const auto take = [&](std::size_t turns) {
      work all(s, turns);
      const nanoseconds before = processor_time();
      const nanoseconds took = time_of([&] { right = contender.run(all) && right; });
      busy = processor_time() - before;
      right = right && all.is_right();
      return took;
    };
    const std::size_t turns = turns_that_fill(round_length(s), s.clients, take);
    const nanoseconds took = take(turns);
    if (!right) return refuse(state, "wrong answer: a number came twice, late or out of order");
    report_time(state, took, s.clients * turns);
    state.counters["processor_ns"] = busy.count() / static_cast<double>(s.clients * turns);
  }
  state.counters["limit_ns"] = limit.count();
  state.counters["clients_are_threads"] = Contender::clients_are_threads;
  state.counters["against"] = static_cast<double>(s.against);
}

// Nothing is asked where there is no GPU, and the output says why there is none.
template <class Contender>
bool ask(std::string_view question, std::size_t threads, std::size_t clients, std::size_t against) {
  if (const std::string why(turnstile::device::cuda(0).why_not()); !why.empty()) {
    left_out_here() = "kernels on a GPU (" + why + ")";
    return false;
  }
  for (const length kernel : {length::none, length::us_5, length::us_20, length::us_100}) {
    const shape s{.threads = threads, .clients = clients, .against = against, .work = kernel};
    cases().push_back({question, Contender::name, s, measure<Contender>});
  }
  return true;
}

// How many threads share a mutex.
inline constexpr std::size_t mutex_threads = 8;

template <class Contender>
bool ask_pipelining(std::size_t threads, std::size_t clients) {
  return ask<Contender>("gpu_pipelining", threads, clients, mutex_threads);
}

}  // namespace bench::gpu
