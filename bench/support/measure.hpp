// measure.hpp - one case: warm up, run one round, check the answer, report.
#pragma once

#include "support/case_table.hpp"
#include "support/fairness.hpp"
#include "support/limit.hpp"
#include "support/shape.hpp"
#include "support/stopwatch.hpp"

#include <algorithm>
#include <benchmark/benchmark.h>
#include <concepts>
#include <cstddef>
#include <span>
#include <vector>

namespace bench {

// One of the N clients of a section. A contender drives each like this, in its own kind of thread:
//
//   for (std::size_t i = 0; i < c.turns(); ++i) {
//     which = c.section();  c.request();  <enter `which`>  c.body();  <leave>  c.completed();
//   }
template <class C>
concept client = requires(C c, typename C::shared_state shared, std::size_t n) {
  C(shared, n, n);
  { c.turns() } -> std::convertible_to<std::size_t>;
  { c.section() } -> std::convertible_to<std::size_t>;
  c.request();
  c.body();
  c.completed();
  { shared.is_right(n) } -> std::convertible_to<bool>;
};

template <class Client>
struct round_result {
  std::vector<Client> clients;
  nanoseconds took;
  bool right;
};

template <class Contender, client Client>
round_result<Client> one_round(Contender& contender, const shape& s, std::size_t turns) {
  typename Client::shared_state shared(s);
  std::vector<Client> clients;
  clients.reserve(s.clients);
  for (std::size_t i = 0; i < s.clients; ++i) clients.emplace_back(shared, i, turns);
  const auto took = time_of([&] { contender.run(std::span(clients)); });
  return {std::move(clients), took, shared.is_right(s.clients * turns)};
}

// How many turns of each client fill a round of the wanted length. The tries are the warm-up as
// well. An interruption makes a few turns look long, and starting the clients takes its time too:
// so what looks long enough is tried again, and counts only if it took twice as long as a quarter
// of the turns.
template <class Try>
std::size_t turns_that_fill(nanoseconds round, std::size_t clients, Try&& try_turns) {
  constexpr std::size_t first_try = 1024;  // operations
  nanoseconds before = round;
  for (std::size_t turns = std::max<std::size_t>(1, first_try / clients);; turns *= 4) {
    nanoseconds took = try_turns(turns);
    if (took >= round / 8) took = std::min<nanoseconds>(took, try_turns(turns));
    if (took >= round || (took >= round / 8 && took >= 2 * before)) {
      const double wanted = static_cast<double>(turns) * (round / took);
      return std::max<std::size_t>(1, static_cast<std::size_t>(wanted));
    }
    before = took;
  }
}

inline nanoseconds round_length(const shape& s) {
  return std::chrono::duration<double, std::milli>(round_milliseconds() * s.round_factor);
}

inline void report_time(benchmark::State& state, nanoseconds took, std::size_t operations) {
  state.SetIterationTime(std::chrono::duration<double>(took).count());
  state.counters["operations"] = static_cast<double>(operations);
  state.counters["ns_per_op"] = took.count() / static_cast<double>(operations);
}

// What a reader needs in order to find the row of a case, and the case it is compared with.
template <class Contender>
void report_kind(benchmark::State& state, const shape& s) {
  state.counters["clients_are_threads"] = Contender::clients_are_threads;
  state.counters["against"] = static_cast<double>(s.against);
}

// Where clients say that it matters who gets how much, and there is more than one.
template <class Client>
concept shares_matter = Client::shares_matter;

// Clients that have more to say than how long it took.
template <class Client>
concept reports = Client::reports;

// Whose shares are counted then: its own, or those of a client that does the same and takes no
// times.
template <class Client>
struct client_to_share {
  using type = Client;
};
template <class Client>
  requires requires { typename Client::to_share; }
struct client_to_share<Client> {
  using type = typename Client::to_share;
};

// Less memory than that of so many sections is lost in what the allocator keeps for itself.
inline constexpr std::size_t enough_to_weigh = 1024;

template <class Contender, client Client>
void measure(benchmark::State& state, const shape& s) {
  const cost alone = cost_alone<Client>(s);
  Contender contender(s);
  for (auto _ : state) {
    bool right = true;
    const std::size_t turns = turns_that_fill(round_length(s), s.clients, [&](std::size_t n) {
      const auto tried = one_round<Contender, Client>(contender, s, n);
      right = right && tried.right;
      return tried.took;
    });
    auto round = one_round<Contender, Client>(contender, s, turns);
    if (!right || !round.right) return refuse(state, "wrong answer: an update was lost");
    report_time(state, round.took, s.clients * turns);
    if constexpr (reports<Client>) Client::report(state, round.clients);
    if constexpr (shares_matter<Client>) {
      if (s.clients > 1 && measures_shares()) {
        using sharing = typename client_to_share<Client>::type;
        const fairness fair = fairness_of<sharing>(contender, s, turns_to_share(turns, s));
        if (!fair.right) return refuse(state, "wrong answer: an update was lost");
        state.counters["jain"] = fair.index;
      }
    }
  }
  report_limit(state, alone, s);
  report_kind<Contender>(state, s);
  if (s.sections >= enough_to_weigh) {
    state.counters["bytes_per_section"] = contender.bytes_per_section();
  }
}

// Adds the case of one contender and one kind of client, if the contender can be in it.
template <class Contender, client Client>
void add_case(std::string_view question, const shape& s) {
  if (s.sections > Contender::most_sections || s.threads > Contender::most_threads) return;
  cases().push_back({question, Contender::name, s, measure<Contender, Client>});
}

}  // namespace bench
