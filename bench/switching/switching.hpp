// switching.hpp - what does a switch from one fiber to the next cost?
//
// N fibers on one thread do nothing but let the others go first. A contender is made from the
// letters of a case, has a name, and run(work): N fibers, each calls work.step(i) and yields, until
// that says no. All are there before the first one runs: making them is not measured.
#pragma once

#include "support/case_table.hpp"
#include "support/measure.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <benchmark/benchmark.h>
#include <cstddef>
#include <vector>

namespace bench::switching {

// All of it on one thread. Who is called twice in a row while others are not done was not switched
// from.
class work {
 public:
  work(std::size_t fibers, std::size_t turns) : left_(fibers, turns), unfinished_(fibers) {}

  std::size_t fibers() const noexcept { return left_.size(); }

  bool step(std::size_t fiber) noexcept {
    if (fiber == last_ && unfinished_ > 1) right_ = false;
    last_ = fiber;
    if (steps_++ == 0) begun_ = clock::now();
    if (--left_[fiber] != 0) return true;
    if (--unfinished_ == 0) ended_ = clock::now();
    return false;
  }

  nanoseconds took() const noexcept { return ended_ - begun_; }

  bool is_right(std::size_t operations) const noexcept {
    return right_ && unfinished_ == 0 && steps_ == operations;
  }

 private:
  std::vector<std::size_t> left_;
  std::size_t unfinished_;
  std::size_t last_ = unlimited;
  std::size_t steps_ = 0;
  bool right_ = true;
  clock::time_point begun_{};
  clock::time_point ended_{};
};

template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  Contender contender(s);
  for (auto _ : state) {
    bool right = true;
    const auto take = [&](std::size_t turns) {
      work all(s.clients, turns);
      contender.run(all);
      right = right && all.is_right(s.clients * turns);
      return all.took();
    };
    const std::size_t turns = turns_that_fill(round_length(s), s.clients, take);
    const nanoseconds took = take(turns);
    if (!right) return refuse(state, "wrong answer: a fiber did not let the others go first");
    report_time(state, took, s.clients * turns);
  }
  state.counters["clients_are_threads"] = 0;
  state.counters["against"] = static_cast<double>(s.against);
}

template <class Contender>
bool ask() {
  for (const std::size_t fibers : {2, 64, 1024}) {
    const shape s{.threads = 1, .clients = fibers, .against = 1};
    cases().push_back({"switching", Contender::name, s, measure<Contender>});
  }
  return true;
}

}  // namespace bench::switching
