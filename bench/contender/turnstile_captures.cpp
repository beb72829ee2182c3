// Bodies as users write them: with more than one word captured. How a compiler copies those is most
// of what an uncontended execute may cost.

#include "contender/way_on_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <string_view>

namespace {

class three_captures {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_3_captures";

  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    std::size_t last = 0;
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      co_await section_.execute([&client, &last, turn] {
        client.body();
        last = turn;
      });
    }
  }

 private:
  turnstile::critical_section section_;
};

const bool asked = (bench::uncontended::ask<bench::way_on_pool<three_captures>>(), true);

}  // namespace
