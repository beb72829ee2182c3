// exit_with_timers.cpp - a process ends while timers wait, others come due, and coroutines sleep
// on.
//
// A program of its own: what has to go well is its end.

#include <turnstile/detail/timer.hpp>
#include <turnstile/turnstile.hpp>

#include <chrono>

using namespace turnstile;
using namespace std::chrono_literals;

namespace {

struct quiet_timer : detail::timer {
  quiet_timer() noexcept : timer([](timer&) noexcept {}) {}
};

// Made before the library's thread, so that it is destroyed after that.
struct late_user {
  ~late_user() {
    waits.cancel();
    quiet_timer late;
    late.start(detail::timer_now());
    late.cancel();
    stays.start(detail::timer_now() + 1ms);
  }
  quiet_timer waits;
  quiet_timer stays;
};
late_user last;

// Comes due again and again, at the end too.
task<> sleep_on() {
  for (;;) co_await sleep_for(100us);
}

async_scope* scope;  // never ended: its work does not end

}  // namespace

int main() {
  last.waits.start(detail::timer_now() + 1h);
  scope = new async_scope;
  for (int i = 0; i != 1000; ++i) scope->spawn(sleep_for(1h));
  for (int i = 0; i != 20; ++i) scope->spawn(sleep_on());
  sync_wait(sleep_for(2ms));
}
