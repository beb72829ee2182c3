#include "switching/switching.hpp"

#include <turnstile/turnstile.hpp>

#include <string_view>
#include <utility>
#include <vector>

namespace {

class fibers_of_ours {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME;

  explicit fibers_of_ours(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  // Started on the one thread: none of them runs before the last one is there.
  void run(bench::switching::work& all) {
    turnstile::sync_wait(pool_.spawn_fiber([this, &all] { run_here(all); }));
  }

 private:
  void run_here(bench::switching::work& all) {
    std::vector<turnstile::fiber<void>> each;
    each.reserve(all.fibers());
    for (std::size_t i = 0; i != all.fibers(); ++i) {
      each.push_back(pool_.spawn_fiber(
          [&all, i] {
            while (all.step(i)) turnstile::await(turnstile::yield());
          },
          {.stack_size = stack_bytes}));
    }
    for (turnstile::fiber<void>& f : each) turnstile::await(std::move(f));
  }

  static constexpr std::size_t stack_bytes = 32 * 1024;  // as Boost.Fiber's

  turnstile::thread_pool pool_;
};

const bool asked = bench::switching::ask<fibers_of_ours>();

}  // namespace
