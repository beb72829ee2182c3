// Ours as others are used: lock, the code between, and a guard that unlocks. By one client, and by
// many on one thread and on two, where nearly all are handed the section.

#include "contender/way_on_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <string_view>

namespace {

class guards {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_guards";

  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      client.request();
      {
        const turnstile::section_guard guard = co_await section_.lock();
        client.body();
      }
      client.completed();
    }
  }

 private:
  turnstile::critical_section section_;
};

const bool asked = [] {
  using contender = bench::way_on_pool<guards>;
  bench::uncontended::ask<contender>();
  for (const std::size_t threads : {1, 2}) {
    bench::add_case<contender, bench::counter::client>("counter", {threads, 64, threads});
  }
  return true;
}();

}  // namespace
