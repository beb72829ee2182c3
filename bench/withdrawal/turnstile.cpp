#include "withdrawal/withdrawal.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <stop_token>
#include <string_view>
#include <thread>

namespace {

using bench::withdrawal::ending;
using turnstile::task;

// The body keeps one of the threads as well: who is withdrawn goes on on the others.
class turnstile_section {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME;
  static constexpr bool clients_are_threads = false;

  explicit turnstile_section(const bench::shape& s) : pool_(static_cast<unsigned>(s.threads)) {}

  void drive(bench::withdrawal::run& r) {
    turnstile::async_scope scope{{.executor = pool_}};
    scope.spawn(hold(r));
    while (!r.is_held()) std::this_thread::yield();
    for (std::size_t i = 0; i < r.waiters(); ++i) scope.spawn(wait(r));
    turnstile::sync_wait(scope.join());
  }

  std::size_t waiting() const noexcept { return section_.statistics().waiters; }

 private:
  task<> hold(bench::withdrawal::run& r) {
    co_await section_.execute([&r] { r.hold(); });
  }

  task<> wait(bench::withdrawal::run& r) {
    bench::withdrawal::waiter& w = r.next_in_line();
    const std::stop_token token = w.token();
    turnstile::execute_options options;
    if (r.by() == bench::withdrawal::source::deadline) {
      options.deadline = w.deadline();
    } else {
      options.stop = token;
    }
    try {
      co_await section_.execute([&w] { w.ended(ending::ran); }, options);
    } catch (const turnstile::operation_cancelled&) {
      w.ended(ending::stopped);
    } catch (const turnstile::deadline_exceeded&) {
      w.ended(ending::expired);
    }
  }

  turnstile::critical_section section_;
  turnstile::thread_pool pool_;
};

const bool asked = bench::withdrawal::ask<turnstile_section>();

}  // namespace
