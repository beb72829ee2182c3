// creation.hpp - what does it cost to have very many sections, each of them used once?
#pragma once

#include "counter/counter.hpp"
#include "support/measure.hpp"

#include <benchmark/benchmark.h>
#include <cstddef>

namespace bench::creation {

// Adds one behind each section in turn.
class client : public counter::client {
 public:
  using counter::client::client;

  std::size_t section() noexcept { return next_++; }

 private:
  std::size_t next_ = 0;
};

// Making the sections, and the thread or two that a contender has, and an execution in each of
// them, next to an execution in one that is there already, by the same client on the same thread.
template <class Contender>
void measure(benchmark::State& state, const shape& s) {
  const auto one_execution = [&state, &s] {
    shape one = s;
    one.sections = 1;
    Contender contender(one);
    const auto take = [&](std::size_t turns) {
      const auto round = one_round<Contender, counter::client>(contender, one, turns);
      if (!round.right) refuse(state, "wrong answer: an update was lost");
      return round.took;
    };
    const std::size_t turns = turns_that_fill(round_length(s), s.clients, take);
    return take(turns) / static_cast<double>(turns);
  };
  for (auto _ : state) {
    const nanoseconds again = one_execution();
    const auto before = clock::now();
    Contender contender(s);
    const auto round = one_round<Contender, client>(contender, s, s.sections);
    const nanoseconds took = clock::now() - before;
    if (!round.right) return refuse(state, "wrong answer: an update was lost");
    report_time(state, took, s.sections);
    state.counters["executions"] = took / again / static_cast<double>(s.sections);
    state.counters["bytes_per_section"] = contender.bytes_per_section();
  }
  report_kind<Contender>(state, s);
}

template <class Contender>
void ask() {
  constexpr std::size_t sections = 1'000'000;
  if (sections > Contender::most_sections) return;
  const shape s{.threads = 1, .clients = 1, .against = 1, .sections = sections};
  cases().push_back({"creation", Contender::name, s, measure<Contender>});
}

}  // namespace bench::creation
