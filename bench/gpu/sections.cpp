// sections.cpp - coroutines whose bodies launch a kernel each.

#include "gpu/work.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstddef>
#include <string_view>

namespace {

using bench::gpu::work;

template <turnstile::release When>
class section {
 public:
  static constexpr bool clients_are_threads = false;
  static constexpr std::string_view name = When == turnstile::release::submission
                                               ? "turnstile_at_submission"
                                               : "turnstile_at_completion";

  bool run(work& all) {
    right_ = true;
    turnstile::async_scope scope({.executor = clients_});
    for (std::size_t i = 0; i != all.clients(); ++i) scope.spawn(ask(all));
    turnstile::sync_wait(scope.join());
    return right_;
  }

 private:
  turnstile::task<> ask(work& all) {
    const auto body = [&all](turnstile::stream& s) { return all.launch(s.native_handle()); };
    for (std::size_t i = 0; i != all.turns(); ++i) {
      const std::size_t mine = co_await section_.execute(body, {.on = &stream_});
      if (!all.is_there(mine)) right_ = false;
    }
  }

  turnstile::thread_pool clients_{2};
  turnstile::stream stream_{turnstile::device::cuda(0)};
  turnstile::critical_section section_{
      turnstile::section_options{.place = turnstile::device::cuda(0), .hand_on = When}};
  std::atomic<bool> right_{true};
};

const bool asked_at_submission =
    bench::gpu::ask_pipelining<section<turnstile::release::submission>>(2, 64);
const bool asked_at_completion =
    bench::gpu::ask_pipelining<section<turnstile::release::completion>>(2, 64);

}  // namespace
