// sleep.cpp - a sleep's begin and end. The protocol is drawn in detail/sleep_awaiter.hpp.

#include "executor/or_shared.hpp"

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/sleep_awaiter.hpp>
#include <turnstile/errors.hpp>

namespace turnstile::detail {

bool sleep_awaiter::await_ready() {
  once_.begin();
  if (const chain_frame* const top = here().chain) {
    stop_ = any_surrounding_stop(top);
    if (stop_.stop_requested()) throw operation_cancelled();
  }
  const time_point now = timer_now();
  if (is_relative_) until_ = later(now, time_);
  return until_ <= now;
}

executor_ref sleep_awaiter::executor_to_come_back_to() {
  prepare_timers();
  return or_shared(here().runs_on);
}

void sleep_awaiter::fall_asleep() noexcept {
  timer::start(until_);
  if (stop_.stop_possible()) withdraws_.emplace(stop_, withdraw{this});
  state was = state::arming;
  if (!word_.compare_exchange_strong(was, state::asleep, release, acquire)) {  // Z1, Z2
    home_.post(*this);
  }
  // this may be gone
}

void sleep_awaiter::end(state how) noexcept {
  state was = word_.load(relaxed);
  do {
    if (was == state::due || was == state::stopped) return;
  } while (!word_.compare_exchange_weak(was, how, acq_rel, relaxed));  // Z1, Z2
  if (was == state::asleep) home_.post(*this);  // this may be gone
}

void sleep_awaiter::await_resume() {
  if (!once_.waits()) return;
  // Relaxed: ordered by Z2, or by the job.
  const bool is_stopped = word_.load(relaxed) == state::stopped;
  withdraws_.reset();
  if (is_stopped) timer::cancel();
  once_.note_going_on();
  if (is_stopped) throw operation_cancelled();
}

}  // namespace turnstile::detail
