// Ours as others are used: lock, the code between, and a guard that unlocks. By one client, with
// the affine path and without, and by many on one thread and on two, where nearly all are handed
// the section.

#include "contender/keeping_off.hpp"
#include "contender/way_on_pool.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <string_view>

namespace {

struct as_it_is {
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_guards";
};
struct not_kept : bench::keeping_off {
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_guards_not_kept";
};

template <class Keeping>
class guards {
 public:
  static constexpr std::string_view name = Keeping::name;

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
  [[no_unique_address]] Keeping keeping_;
  turnstile::critical_section section_;
};

const bool asked = [] {
  using contender = bench::way_on_pool<guards<as_it_is>>;
  bench::uncontended::ask<bench::way_on_pool<guards<not_kept>>>();
  bench::uncontended::ask<contender>();
  for (const std::size_t threads : {1, 2}) {
    bench::add_case<contender, bench::counter::client>("counter", {threads, 64, threads});
  }
  return true;
}();

}  // namespace
