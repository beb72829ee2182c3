// What it costs that the library knows who holds and who uses what: resources that are declared, and a
// section that is entered while another one is held, next to the two entered one after the other.

#include "contender/ask.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <functional>
#include <span>
#include <string_view>

namespace {

using turnstile::task;

// Way has take_turns(client).
template <class Way>
class owning : public bench::clients_on_threads {
 public:
  explicit owning(const bench::shape&) {}

  template <class Client>
  void run(std::span<Client> clients) {
    turnstile::async_scope scope{{.executor = pool_}};
    for (Client& client : clients) scope.spawn(static_cast<Way&>(*this).take_turns(client));
    turnstile::sync_wait(scope.join());
  }

  double bytes_per_section() const noexcept { return sizeof(turnstile::critical_section); }

 protected:
  turnstile::critical_section outer_;
  turnstile::critical_section inner_;

 private:
  turnstile::thread_pool pool_{1};
};

class three_resources : public owning<three_resources> {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_3_resources";
  using owning::owning;

  template <class Client>
  task<> take_turns(Client& client) {
    const turnstile::execute_options options{.uses = {things_[0], things_[1], things_[2]}};
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await inner_.execute([&client] { client.body(); }, options);
    }
  }

 private:
  std::array<turnstile::resource, 3> things_;
};

class nested : public owning<nested> {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_nested";
  using owning::owning;

  template <class Client>
  task<> take_turns(Client& client) {
    const auto hold = [this, &client]() -> task<> {
      co_await inner_.execute([&client] { client.body(); });
    };
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await outer_.execute(std::ref(hold));
    }
  }
};

class one_after_the_other : public owning<one_after_the_other> {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_not_nested";
  using owning::owning;

  template <class Client>
  task<> take_turns(Client& client) {
    const auto nothing = []() -> task<> { co_return; };
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await outer_.execute(std::ref(nothing));
      co_await inner_.execute([&client] { client.body(); });
    }
  }
};

const bool asked = (bench::uncontended::ask<three_resources>(), bench::uncontended::ask<nested>(),
                    bench::uncontended::ask<one_after_the_other>(), true);

}  // namespace
