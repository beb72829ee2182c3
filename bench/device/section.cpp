#include "device/pipelining.hpp"

#include <turnstile/turnstile.hpp>

#include <string_view>

namespace {

template <turnstile::release When>
class section {
 public:
  static constexpr std::string_view name = When == turnstile::release::submission
                                               ? "turnstile_at_submission"
                                               : "turnstile_at_completion";

  void run(bench::pipelining::work& all) {
    turnstile::async_scope scope({.executor = clients_});
    for (std::size_t i = 0; i != all.clients(); ++i) scope.spawn(ask(all));
    turnstile::sync_wait(scope.join());
  }

 private:
  turnstile::task<> ask(bench::pipelining::work& all) {
    std::size_t answer = 0;
    auto body = [&all, &answer](turnstile::stream& s) { all.submit(s, answer); };
    for (std::size_t i = 0; i != all.turns(); ++i) {
      co_await section_.execute(body, {.on = &stream_});
      all.take(answer);
    }
  }

  turnstile::thread_pool clients_{1};
  turnstile::thread_pool device_{1};
  turnstile::stream stream_{turnstile::device::host(), {.executor = device_}};
  turnstile::critical_section section_{turnstile::section_options{.hand_on = When}};
};

const bool asked_at_submission = bench::pipelining::ask<section<turnstile::release::submission>>();
const bool asked_at_completion = bench::pipelining::ask<section<turnstile::release::completion>>();

}  // namespace
