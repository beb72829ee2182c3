// manual_clock.cpp - the timer queue's time, by hand.

#include "executor/timer_queue.hpp"
#include "executor/timer_thread.hpp"

#include <turnstile/detail/contract.hpp>
#include <turnstile/manual_clock.hpp>

namespace turnstile {

manual_clock::manual_clock() {
  if (!detail::timers.begin_by_hand()) {
    detail::contract_break("", "there is a manual_clock already", {});
  }
  detail::timers.call_due_by_hand();  // what the library's thread is just about to call
}

manual_clock::~manual_clock() {
  using enum detail::timer_queue::then;
  if (detail::timers.end_by_hand() == wake) detail::wake_timer_thread();
}

std::chrono::steady_clock::time_point manual_clock::now() const noexcept {
  return detail::timers.now();
}

void manual_clock::advance(std::chrono::nanoseconds by) { detail::timers.advance(by); }

void manual_clock::advance_to(std::chrono::steady_clock::time_point t) {
  detail::timers.advance_to(t);
}

std::size_t manual_clock::pending() const noexcept { return detail::timers.size(); }

}  // namespace turnstile
