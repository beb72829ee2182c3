// pipelining.hpp - what is gained if a section is handed on when work is submitted, and not when it
// is done?
//
// The device is the host: one stream, and a thread that does nothing but its work. To submit takes
// 5 us, and a kernel as long as the case says; both are spun by the clock, for the time that a
// device takes does not depend on who else wants the cores. N executions are under way at once.
#pragma once

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <turnstile/stream.hpp>

#include <algorithm>
#include <benchmark/benchmark.h>
#include <chrono>
#include <cstddef>
#include <vector>

namespace bench::pipelining {

inline void spin_for(std::chrono::microseconds time) noexcept {
  const auto end = clock::now() + time;
  while (clock::now() < end) {
  }
}

// A number that each kernel gives to whoever submitted it, and adds one to.
class work {
 public:
  work(const shape& s, std::size_t turns)
      : clients_(s.clients),
        turns_(turns),
        submission_(microseconds_of(s.body)),
        kernel_(microseconds_of(s.work)),
        given_(s.clients * turns) {}

  std::size_t clients() const noexcept { return clients_; }
  std::size_t turns() const noexcept { return turns_; }
  std::size_t operations() const noexcept { return given_.size(); }

  // By one at a time. `answer` has to outlive the kernel.
  void submit(turnstile::stream& device, std::size_t& answer) {
    spin_for(submission_);
    device.enqueue([this, &answer, mine = submitted_++] { run(mine, answer); });
  }
  // On one thread, when the work that was submitted with it is complete.
  void take(std::size_t answer) noexcept {
    right_ = right_ && answer < given_.size() && !given_[answer];
    if (right_) given_[answer] = true;
  }

  // All in order, and each value once.
  bool is_right() const noexcept {
    return right_ && in_order_ && value_ == operations() &&
           std::find(given_.begin(), given_.end(), false) == given_.end();
  }

 private:
  void run(std::size_t number, std::size_t& answer) noexcept {
    spin_for(kernel_);
    in_order_ = in_order_ && number == value_;
    answer = value_++;
  }

  const std::size_t clients_;
  const std::size_t turns_;
  const std::chrono::microseconds submission_;
  const std::chrono::microseconds kernel_;
  std::size_t submitted_ = 0;
  std::vector<bool> given_;
  bool right_ = true;
  // The device's.
  alignas(64) std::size_t value_ = 0;
  bool in_order_ = true;
};

template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  Contender contender;
  for (auto _ : state) {
    bool right = true;
    const auto take = [&](std::size_t turns) {
      work all(s, turns);
      const nanoseconds took = time_of([&] { contender.run(all); });
      right = right && all.is_right();
      return took;
    };
    const std::size_t turns = turns_that_fill(round_length(s), s.clients, take);
    const nanoseconds took = take(turns);
    if (!right) return refuse(state, "wrong answer: a value came twice, never or out of order");
    report_time(state, took, s.clients * turns);
  }
  state.counters["limit_ns"] =
      nanoseconds(std::max(microseconds_of(s.body), microseconds_of(s.work))).count();
  state.counters["clients_are_threads"] = 0;
  state.counters["against"] = static_cast<double>(s.against);
}

template <class Contender>
bool ask() {
  for (const length kernel : {length::us_5, length::us_20, length::us_100}) {
    const shape s{.threads = 2, .clients = 64, .against = 2, .body = length::us_5, .work = kernel};
    cases().push_back({"pipelining", Contender::name, s, measure<Contender>});
  }
  return true;
}

}  // namespace bench::pipelining
