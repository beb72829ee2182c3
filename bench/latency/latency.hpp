// latency.hpp - how long does a client wait, from its request until it goes on?
//
// The loop is closed: a client asks again when it has been served. A section that is quick for one
// client and lets the others starve has a good median here and a terrible maximum.
#pragma once

#include "counter/counter.hpp"
#include "support/percentiles.hpp"
#include "think/think.hpp"

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <limits>
#include <vector>

namespace bench::latency {

// A client that notes how long each of its requests took. Reading the clock twice is part of the
// private work, also in the physical limit.
template <client Client>
class alignas(64) timed : public Client {
 public:
  static constexpr bool shares_matter = false;  // its percentiles say more
  static constexpr bool reports = true;

  timed(typename Client::shared_state& shared, std::size_t index, std::size_t turns)
      : Client(shared, index, turns), samples_(turns) {}

  void request() noexcept {
    Client::request();
    asked_ = clock::now();
  }

  void completed() noexcept {
    const auto waited = std::chrono::nanoseconds(clock::now() - asked_).count();
    samples_[noted_++] = static_cast<std::uint32_t>(std::min<std::int64_t>(waited, longest));
    Client::completed();
  }

  // Also of those that are made of it.
  template <std::derived_from<timed> C>
  static void report(benchmark::State& state, const std::vector<C>& clients) {
    std::vector<std::uint32_t> all;
    for (const timed& c : clients) all.insert(all.end(), c.samples_.begin(), c.samples_.end());
    const percentiles p = percentiles_of(all);
    state.counters["p50_us"] = p.p50 / 1000;
    state.counters["p99_us"] = p.p99 / 1000;
    state.counters["p999_us"] = p.p999 / 1000;
    state.counters["max_us"] = p.max / 1000;
  }

 private:
  static constexpr std::int64_t longest = std::numeric_limits<std::uint32_t>::max();

  std::vector<std::uint32_t> samples_;  // nanoseconds
  std::size_t noted_ = 0;
  clock::time_point asked_;
};

// Percentiles far out need many samples.
inline constexpr double longer_rounds = 3;

// 64 clients ask. On plain threads they are 64 threads; two threads are shown as well, though that
// is another load, with two clients.
template <class Contender>
void ask() {
  constexpr std::size_t many = 64;
  const auto ask_on = [](std::size_t threads, std::size_t clients) {
    shape s{.threads = threads, .clients = clients, .against = many, .round_factor = longer_rounds};
    add_case<Contender, timed<counter::client>>("latency", s);
    s.work = length::ns_215;
    add_case<Contender, timed<think::client>>("latency", s);
  };
  ask_on(2, Contender::clients_are_threads ? 2 : many);
  if (Contender::clients_are_threads) ask_on(many, many);
}

}  // namespace bench::latency
