// Ours with the affine path off: what an execution costs that has to do its atomic
// read-modify-writes, in the same run as one that need not.

#include "contender/keeping_off.hpp"
#include "contender/way_on_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <string_view>

namespace {

class not_kept {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_not_kept";

  template <class Client>
  turnstile::task<> take_turns(Client& client) {
    for (std::size_t turn = 0; turn < client.turns(); ++turn) {
      client.request();
      co_await section_.execute([&client] { client.body(); });
      client.completed();
    }
  }

 private:
  bench::keeping_off off_;
  turnstile::critical_section section_;
};

const bool asked = (bench::uncontended::ask<bench::way_on_pool<not_kept>>(), true);

}  // namespace
