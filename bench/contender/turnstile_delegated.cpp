// Fibers of ours that lock a delegated_mutex: code that only knows std::scoped_lock.

#include "contender/ask.hpp"
#include "lines/lines.hpp"

#include <turnstile/turnstile.hpp>

#include <mutex>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace {

class delegated : public bench::clients_on_threads {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_delegated";

  explicit delegated(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  template <class Client>
  void run(std::span<Client> clients) {
    std::vector<turnstile::fiber<void>> fibers;
    fibers.reserve(clients.size());
    for (Client& client : clients) {
      fibers.push_back(
          pool_.spawn_fiber([this, &client] { take_turns(client); }, {.stack_size = stack_bytes}));
    }
    for (turnstile::fiber<void>& f : fibers) turnstile::sync_wait(std::move(f));
  }

  double bytes_per_section() const noexcept { return sizeof section_; }

 private:
  static constexpr std::size_t stack_bytes = 32 * 1024;  // as Boost.Fiber's contender

  template <class Client>
  void take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      client.request();
      {
        const std::scoped_lock hold(mutex_);
        client.body();
      }
      client.completed();
    }
  }

  turnstile::critical_section section_;
  turnstile::delegated_mutex mutex_{section_};
  turnstile::thread_pool pool_;
};

const bool asked = (bench::lines::ask<delegated>(), true);

}  // namespace
