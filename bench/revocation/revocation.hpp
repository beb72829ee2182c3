// revocation.hpp - a thread that had a section to itself turns to other work: how long does another
// one wait that asks now?
//
// The one executes so many bodies in a row that ours stays with it (keeper.hpp), and then works by
// itself for 10 ms; or until the other one is through, since the rest would say nothing. The other
// one asks once in that time. What is noted is the time from its request until it goes on. If it is
// not through after 10 ms, the one goes back to its bodies, and the request waits for as long as it
// takes.
#pragma once

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/percentiles.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <algorithm>
#include <atomic>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <thread>
#include <vector>

namespace bench::revocation {

// The one:
//   while (r.has_more()) {
//     do {
//       for (bodies_in_a_row times) { <enter> r.body(); <leave> }
//     } while (!r.work_alone(kept));
//   }
// The other:
//   while (r.has_to_ask()) { r.request(); <enter> r.others_body(); <leave> r.completed(); }
class run {
 public:
  // Ours goes on staying with a thread, each time after 32 bodies, if it was worth while the last
  // time: for 4096 of them.
  static constexpr std::size_t bodies_in_a_row = 4 * 4096;

  // It ends after so many requests, or at that time.
  run(std::size_t requests, clock::time_point end) : requests_(requests), end_(end) {
    samples_.reserve(requests);
  }

  // By the one.
  bool has_more() noexcept {
    if (asked_ == 0 || (asked_ < requests_ && clock::now() < end_)) return true;
    working_.store(unlimited, std::memory_order_release);
    return false;
  }
  void body() noexcept { ++bodies_, ++had_; }
  // True: the other one is through. `kept`: the section stays with this thread now.
  bool work_alone(bool kept) noexcept {
    if (working_.load(std::memory_order_relaxed) == asked_) {
      kept_ += kept;
      working_.store(asked_ + 1, std::memory_order_release);
    }
    const auto end = clock::now() + std::chrono::milliseconds(10);
    while (through_.load(std::memory_order_acquire) == asked_) {
      if (clock::now() >= end) return false;
    }
    ++asked_;
    return true;
  }

  // By the other one, at a time when the one works by itself. False: there is nothing more to ask.
  bool has_to_ask() const noexcept {
    const std::size_t before = samples_.size();
    while (working_.load(std::memory_order_acquire) == before) std::this_thread::yield();
    return working_.load(std::memory_order_relaxed) != unlimited;
  }
  void request() noexcept { requested_ = clock::now(); }
  void others_body() noexcept { ++bodies_; }
  void completed() {
    const auto waited = std::chrono::nanoseconds(clock::now() - requested_).count();
    samples_.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>(waited, longest)));
    through_.store(samples_.size(), std::memory_order_release);
  }

  std::size_t requests() const noexcept { return asked_; }
  bool is_right() const noexcept { return samples_.size() == asked_ && bodies_ == had_ + asked_; }
  double share_kept() const noexcept {
    return static_cast<double>(kept_) / static_cast<double>(asked_);
  }
  percentiles waited() { return percentiles_of(samples_); }

 private:
  static constexpr std::int64_t longest = std::numeric_limits<std::uint32_t>::max();

  const std::size_t requests_;
  const clock::time_point end_;
  alignas(64) std::size_t bodies_ = 0;               // protected by the section
  alignas(64) std::atomic<std::size_t> working_{0};  // by itself, for so many requests by now
  alignas(64) std::atomic<std::size_t> through_{0};
  alignas(64) std::size_t asked_ = 0;  // the one's own
  std::size_t had_ = 0;
  std::size_t kept_ = 0;
  alignas(64) std::vector<std::uint32_t> samples_;  // the other one's, in nanoseconds
  clock::time_point requested_;
};

// p99.9 wants a thousand requests: a usual round has 2000, unless that takes a second.
inline constexpr double requests_per_millisecond = 50;
inline constexpr double longest_in_rounds = 25;

template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  Contender contender(s);
  const double milliseconds = round_length(s).count() / 1e6;
  const auto requests = static_cast<std::size_t>(milliseconds * requests_per_millisecond);
  const auto from_now = [](nanoseconds length) {
    return clock::now() + std::chrono::duration_cast<clock::duration>(length);
  };
  for (auto _ : state) {
    run warm_up(requests / 16, from_now(round_length(s)));
    contender.drive(warm_up);
    run r(requests, from_now(round_length(s) * longest_in_rounds));
    const nanoseconds took = time_of([&] { contender.drive(r); });
    if (!warm_up.is_right() || !r.is_right()) {
      return refuse(state, "wrong answer: an update was lost");
    }
    report_time(state, took, r.requests());
    const percentiles p = r.waited();
    state.counters["p50_us"] = p.p50 / 1000;
    state.counters["p99_us"] = p.p99 / 1000;
    state.counters["p999_us"] = p.p999 / 1000;
    state.counters["max_us"] = p.max / 1000;
    state.counters["kept"] = r.share_kept();
  }
  report_kind<Contender>(state, s);
}

template <class Contender>
bool ask() {
  const shape s{.threads = 2, .clients = 2, .against = 2};
  cases().push_back({"revocation", Contender::name, s, measure<Contender>});
  return true;
}

}  // namespace bench::revocation
