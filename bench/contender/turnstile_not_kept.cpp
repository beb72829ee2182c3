// Ours with the affine path off: what an execution costs that has to do its atomic
// read-modify-writes, in the same run as one that need not.

#include "contender/ask.hpp"
#include "contender/keeping_off.hpp"

#include <turnstile/turnstile.hpp>

#include <span>
#include <string_view>

namespace {

class not_kept : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_not_kept";

  explicit not_kept(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

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
      co_await section_.execute([&client] { client.body(); });
      client.completed();
    }
  }

  bench::keeping_off off_;
  turnstile::critical_section section_;
  turnstile::thread_pool pool_;
};

const bool asked = (bench::uncontended::ask<not_kept>(), true);

}  // namespace
