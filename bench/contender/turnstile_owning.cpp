// What it costs that the library knows who holds and who uses what: resources that are declared,
// and a section that is entered while another one is held, next to the two entered one after the
// other.

#include "contender/way_on_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>
#include <functional>
#include <string_view>

namespace {

using turnstile::task;

class three_resources {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_3_resources";

  template <class Client>
  task<> take_turns(Client& client) {
    const turnstile::execute_options options{.uses = {things_[0], things_[1], things_[2]}};
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await section_.execute([&client] { client.body(); }, options);
    }
  }

 private:
  turnstile::critical_section section_;
  std::array<turnstile::resource, 3> things_;
};

class nested {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_nested";

  template <class Client>
  task<> take_turns(Client& client) {
    const auto hold = [this, &client]() -> task<> {
      co_await inner_.execute([&client] { client.body(); });
    };
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await outer_.execute(std::ref(hold));
    }
  }

 private:
  turnstile::critical_section outer_;
  turnstile::critical_section inner_;
};

class one_after_the_other {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_not_nested";

  template <class Client>
  task<> take_turns(Client& client) {
    const auto nothing = []() -> task<> { co_return; };
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await outer_.execute(std::ref(nothing));
      co_await inner_.execute([&client] { client.body(); });
    }
  }

 private:
  turnstile::critical_section outer_;
  turnstile::critical_section inner_;
};

template <class... Way>
void ask_uncontended() {
  (bench::uncontended::ask<bench::way_on_pool<Way>>(), ...);
}

const bool asked = (ask_uncontended<three_resources, nested, one_after_the_other>(), true);

}  // namespace
