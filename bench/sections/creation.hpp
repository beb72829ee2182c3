// creation.hpp - what does it cost to have very many sections, each of them used once?
#pragma once

#include "counter/counter.hpp"
#include "support/measure.hpp"

#include <benchmark/benchmark.h>
#include <cstddef>
#include <malloc.h>

namespace bench::creation {

// Adds one behind each section in turn.
class client : public counter::client {
 public:
  using counter::client::client;

  std::size_t section() noexcept { return next_++; }

 private:
  std::size_t next_ = 0;
};

// Large blocks are new from the system each time, whatever was freed before: else they are so only
// now and then.
inline void have_new_memory() noexcept {
  constexpr int large = 128 * 1024;
  mallopt(M_MMAP_THRESHOLD, large);
  mallopt(M_MMAP_MAX, 65536);
  mallopt(M_TRIM_THRESHOLD, large);
  malloc_trim(0);
}

// What the program gives back it keeps, and has again the next time.
inline void keep_memory() noexcept {
  mallopt(M_MMAP_MAX, 0);
  mallopt(M_TRIM_THRESHOLD, -1);
}

// Making the sections, and the thread or two that a contender has, and an execution in each of
// them, next to an execution in one that is there already, by the same client on the same thread.
// Once in memory that is new from the system, which is most of what that takes, and once in memory
// that the program has had before.
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
  const auto all_of_them = [&state, &s] {
    const auto before = clock::now();
    Contender contender(s);
    const auto round = one_round<Contender, client>(contender, s, s.sections);
    const nanoseconds took = clock::now() - before;
    if (!round.right) refuse(state, "wrong answer: an update was lost");
    state.counters["bytes_per_section"] = contender.bytes_per_section();
    return took;
  };
  for (auto _ : state) {
    const nanoseconds again = one_execution() * static_cast<double>(s.sections);
    have_new_memory();
    const nanoseconds took = all_of_them();
    report_time(state, took, s.sections);
    state.counters["executions"] = took / again;
    keep_memory();
    all_of_them();
    state.counters["executions_again"] = all_of_them() / again;
    have_new_memory();
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
