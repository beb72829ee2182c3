// manual_clock.hpp - time that passes when its owner says so: for tests.
//
// Behind it: lib/executor (timer_queue).
#pragma once

#include <chrono>
#include <cstddef>

namespace turnstile {

/// While one exists, the sleeps, deadlines and timeouts of the process go by it, those included
/// that began before. It begins at the steady clock's time; after its end they go by that again.
///
/// Threads    `now`, `advance`, `advance_to` and `pending` from any thread
/// Lifetime   one at a time: a second one is reported on stderr and aborts. What still waits at its
///            end needs the library's own thread from then on: if that cannot be started, the
///            process ends
class manual_clock {
 public:
  manual_clock();
  ~manual_clock();
  manual_clock(const manual_clock&) = delete;
  manual_clock& operator=(const manual_clock&) = delete;

  std::chrono::steady_clock::time_point now() const noexcept;

  /// Sets the new time and then ends whatever waits for it, on the calling thread: in the order of
  /// time, and of one time in the order in which the waits began. Time does not go back: a time
  /// that is past already changes nothing.
  ///
  /// Resumes    each coroutine on its executor; inside the call only if that one runs jobs within
  ///            its `post`
  /// Progress   within a timer's call, such as a stop callback of a `timeout`, it returns before
  ///            anything has ended: who makes that call goes on with it
  void advance(std::chrono::nanoseconds by);
  void advance_to(std::chrono::steady_clock::time_point t);

  /// How many sleeps, deadlines and timeouts wait for their time.
  std::size_t pending() const noexcept;
};

}  // namespace turnstile
