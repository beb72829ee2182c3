// limit.hpp - what the hardware allows at best.
//
// The bodies of one section follow each other; everything else can use every core. So an operation
// cannot take less than max(inside, (inside + outside) / cores), whatever the section is made of.
#pragma once

#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <cstddef>
#include <thread>

namespace bench {

// What one operation takes on a thread that is alone.
struct cost {
  nanoseconds inside;
  nanoseconds outside;
};

template <class Client>
cost cost_alone(const shape& s) {
  typename Client::shared_state shared(s);
  const auto time_turns = [&](auto&& part) {
    return fastest_call([&](std::size_t turns) {
      Client client(shared, 0, turns);
      return time_of([&] {
        for (std::size_t i = 0; i < turns; ++i) {
          part(client);
          benchmark::ClobberMemory();
        }
      });
    });
  };
  const auto inside = time_turns([](Client& c) { c.body(); });
  const auto outside = time_turns([](Client& c) {
    benchmark::DoNotOptimize(c.section());
    c.request();
    c.completed();
  });
  return {inside, outside};
}

inline std::size_t cores_for(const shape& s) {
  return std::min<std::size_t>(s.threads, std::max(1u, std::thread::hardware_concurrency()));
}

inline nanoseconds limit_of(const cost& c, const shape& s) {
  const nanoseconds shared = (c.inside + c.outside) / static_cast<double>(cores_for(s));
  // Bodies of different sections need not wait for each other.
  return s.sections == 1 ? std::max(c.inside, shared) : shared;
}

inline void report_limit(benchmark::State& state, const cost& c, const shape& s) {
  state.counters["inside_ns"] = c.inside.count();
  state.counters["outside_ns"] = c.outside.count();
  state.counters["limit_ns"] = limit_of(c, s).count();
}

}  // namespace bench
