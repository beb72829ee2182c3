// way_on_pool.hpp - ours, used in one way or another: clients are coroutines on a pool, and a way
// says what each of them does.
//
// A way has a name and task<> take_turns(client), and holds the sections. It is there before the
// threads and outlives them.
#pragma once

#include "contender/ask.hpp"

#include <turnstile/turnstile.hpp>

#include <span>
#include <string_view>

namespace bench {

template <class Way>
class way_on_pool : public clients_on_threads {
 public:
  static constexpr std::string_view name = Way::name;

  explicit way_on_pool(const shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  template <class Client>
  void run(std::span<Client> clients) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (Client& client : clients) scope.spawn(way_.take_turns(client));
    turnstile::sync_wait(scope.join());
  }

  double bytes_per_section() const noexcept { return sizeof(turnstile::critical_section); }

 private:
  Way way_;
  turnstile::thread_pool pool_;
};

}  // namespace bench
