// Ours as others are used: lock, the code between, and a guard that unlocks. By one client, and by many on one thread
// and on two, where nearly all are handed the section.

#include "contender/ask.hpp"

#include <turnstile/turnstile.hpp>

#include <span>
#include <string_view>

namespace {

class guards : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_guards";

  explicit guards(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  template <class Client>
  void run(std::span<Client> clients) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (Client& client : clients) scope.spawn(take_turns(client));
    turnstile::sync_wait(scope.join());
  }

  double bytes_per_section() const noexcept { return sizeof section_; }

 private:
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

  turnstile::critical_section section_;
  turnstile::thread_pool pool_;
};

const bool asked = [] {
  bench::uncontended::ask<guards>();
  for (const std::size_t threads : {1, 2}) {
    bench::add_case<guards, bench::counter::client>("counter", {threads, 64, threads});
  }
  return true;
}();

}  // namespace
