// oversubscribed.hpp - what if there are more clients, or more threads, than cores?
//
// The body is long enough to be interrupted inside. A lock that makes threads wait then needs the
// scheduler of the operating system for every hand-over.
#pragma once

#include "latency/latency.hpp"
#include "think/think.hpp"

namespace bench::oversubscribed {

struct client : latency::timed<think::client> {
  using latency::timed<think::client>::timed;
  static constexpr bool shares_matter = true;
  using to_share = think::client;
};

template <class Contender>
void ask_on(std::size_t threads, std::size_t clients, std::size_t against) {
  const shape s{.threads = threads,
                .clients = clients,
                .against = against,
                .body = length::steps_1000,
                .work = length::steps_1000,
                .round_factor = latency::longer_rounds};
  add_case<Contender, client>("oversubscribed", s);
}

// 64 coroutines on 2 threads stand against 64 threads; 64 on 8 threads against 8.
template <class Contender>
void ask() {
  if constexpr (Contender::clients_are_threads) {
    ask_on<Contender>(8, 8, 8);
    ask_on<Contender>(64, 64, 64);
  } else {
    ask_on<Contender>(8, 64, 8);
    ask_on<Contender>(2, 64, 64);
  }
}

}  // namespace bench::oversubscribed
