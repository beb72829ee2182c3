#include "contender/keeping_off.hpp"
#include "revocation/revocation.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <string_view>

namespace {

using turnstile::task;

// Two coroutines, each on a thread of its own. Off has to be there before the threads.
template <class Off>
class turnstile_section {
 public:
  static constexpr std::string_view name = Off::name;
  static constexpr bool clients_are_threads = false;

  explicit turnstile_section(const bench::shape&) {}

  void drive(bench::revocation::run& r) {
    turnstile::async_scope scope;
    scope.spawn(turnstile::schedule_on(ones_, have(r)));
    scope.spawn(turnstile::schedule_on(others_, want(r)));
    turnstile::sync_wait(scope.join());
  }

 private:
  task<> have(bench::revocation::run& r) {
    while (r.has_more()) {
      do {
        for (std::size_t i = 0; i < r.bodies_in_a_row; ++i) {
          co_await section_.execute([&r] { r.body(); });
        }
      } while (!r.work_alone(turnstile::detail::here().keeps->keeps_something()));
    }
  }

  task<> want(bench::revocation::run& r) {
    while (r.has_to_ask()) {
      r.request();
      co_await section_.execute([&r] { r.others_body(); });
      r.completed();
    }
  }

  Off off_;
  turnstile::critical_section section_;
  turnstile::thread_pool ones_{1};
  turnstile::thread_pool others_{1};
};

struct kept {
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME;
};

struct not_kept {
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_not_kept";
  bench::keeping_off off;
};

const bool asked = bench::revocation::ask<turnstile_section<kept>>() &&
                   bench::revocation::ask<turnstile_section<not_kept>>();

}  // namespace
