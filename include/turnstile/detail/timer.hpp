// timer.hpp - a call at a given time: what sleeps, deadlines and timeouts are made of.
//
// Behind it: lib/executor/timer_queue.hpp, with the protocol of cancel against the call.
#pragma once

#include <turnstile/detail/atomic.hpp>

#include <chrono>
#include <cstdint>

namespace turnstile::detail {

using time_point = std::chrono::steady_clock::time_point;

// What is too far away is never.
template <class TimePoint>
TimePoint later(TimePoint now, std::chrono::nanoseconds by) noexcept {
  return by >= (TimePoint::max)() - now ? (TimePoint::max)() : now + by;
}

// Intrusive: lives in the frame or node that waits, so starting it allocates nothing.
//
// `due` is called once, on a thread of the library's or of whoever advances a manual_clock. It must
// be short, must not start this timer again, and runs no code of users' but stop callbacks
// (timeout); it may post jobs, and it may end the timer's life as the last thing it does.
class timer {
 public:
  using call = void (*)(timer&) noexcept;
  explicit timer(call due) noexcept : due_(due) {}
  timer(const timer&) = delete;
  timer& operator=(const timer&) = delete;

  // Calls `due` at `at` or soon after: never before, perhaps before start has returned. The timer
  // may be gone by then. Where a manual_clock has passed `at` already, on this very thread. Once at
  // a time: to be started again it has to be cancelled first, also when it was called.
  void start(time_point at) noexcept;

  // Afterwards the call is not being made and will not be. True: it was not made, as of a timer
  // that was never started. If the call is being made on another thread, waits for it; on the
  // thread that makes it, returns false at once. One thread at a time, and ordered after the
  // beginning of start.
  bool cancel() noexcept { return !is_started_ || withdraw(); }

 private:
  friend class timer_queue;
  friend class timer_heap;

  bool withdraw() noexcept;

  const call due_;
  guarded<bool> is_started_{false};  // only who starts and cancels it
  // Under the queue's lock:
  guarded<bool> waits_{false};
  guarded<time_point> at_{time_point{}};
  guarded<std::uint64_t> number_{0};   // of those started ever: the earlier of two at one time
  guarded<timer*> child_{nullptr};     // in the heap: the first of those below it,
  guarded<timer*> next_{nullptr};      // the next one below the same,
  guarded<timer*> previous_{nullptr};  // and the one before it; of the first, the one above
};

// What deadlines are compared with: the steady clock, or a manual_clock while there is one.
time_point timer_now() noexcept;
// By that. Asked again and again of a time that is far, which the clock itself is not looked at
// for.
bool has_come(time_point t) noexcept;

// Makes what timers need. Throws std::system_error if its thread cannot be started, which would end
// the process in timer::start.
void prepare_timers();

}  // namespace turnstile::detail
