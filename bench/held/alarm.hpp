// alarm.hpp - something that takes 100 us and no thread, for a coroutine to wait for.
//
// Nobody sleeps for it: on a few cores that are all busy, a thread that sleeps 100 us is back after
// a millisecond. The tasks look at the clock instead, after each unit of work.
#pragma once

#include "support/stopwatch.hpp"

#include <atomic>
#include <chrono>
#include <functional>
#include <utility>

namespace bench::held {

inline constexpr std::chrono::microseconds hold_time{100};

// One alarm at a time.
class alarm {
 public:
  // Whoever looks at the clock hold_time from now, or later, calls `ring`. Once this is visible the
  // alarm may ring, so the caller's frame may be gone.
  void set(std::function<void()> ring) {
    ring_ = std::move(ring);
    due_.store((clock::now() + hold_time).time_since_epoch().count(), std::memory_order_release);
  }

  // `at_once`: rings without waiting for the time.
  void look(bool at_once) {
    clock::rep due = due_.load(std::memory_order_acquire);
    if (due == none) return;
    if (!at_once && clock::now().time_since_epoch().count() < due) return;
    if (!due_.compare_exchange_strong(due, none, std::memory_order_acq_rel)) return;
    // Whoever is woken may set the next alarm before `ring` returns.
    const auto ring = std::move(ring_);
    ring();
  }

 private:
  static constexpr clock::rep none = 0;

  std::atomic<clock::rep> due_ = none;
  std::function<void()> ring_;  // written before due_ is set, taken by the one who resets it
};

}  // namespace bench::held
