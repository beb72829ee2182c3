// sleep.hpp - wait for a time.
//
// Behind it: lib/resume (sleep.cpp), lib/executor (timer_queue).
#pragma once

#include <turnstile/detail/sleep_awaiter.hpp>

#include <chrono>
#include <cmath>

namespace turnstile {
namespace detail {

// Saturates, and rounds up: a sleep is never too short.
template <class Rep, class Period>
std::chrono::nanoseconds whole_nanoseconds(std::chrono::duration<Rep, Period> d) noexcept {
  using std::chrono::nanoseconds;
  const long double n = std::chrono::duration<long double, std::nano>(d).count();
  if (!(n > 0)) return nanoseconds::zero();
  const auto most = static_cast<long double>((nanoseconds::max)().count());
  return n >= most ? (nanoseconds::max)()
                   : nanoseconds(static_cast<nanoseconds::rep>(std::ceil(n)));
}

}  // namespace detail

/// Resumes when `d` has passed, counted from when it is awaited; at once if there is nothing to
/// wait for.
///
/// Resumes    on the executor the coroutine was running on; without one on `thread_pool::shared()`
/// Throws     `operation_cancelled` as soon as a surrounding `when_any`, `timeout` or scope asks to
///            stop, also if it has asked before; `std::system_error` if the process's first wait
///            for a time cannot start the thread that it needs
/// Progress   does not block a thread; never too early. At the end of the process, from when
///            `thread_pool::shared()` ends, no sleep ends because its time has come
/// Lifetime   the coroutine must not be destroyed while it sleeps: that is reported and aborts
template <class Rep, class Period>
detail::sleep_awaiter sleep_for(std::chrono::duration<Rep, Period> d) noexcept {
  return detail::sleep_awaiter(detail::whole_nanoseconds(d));
}

/// The same until `t`, at once if that is past.
inline detail::sleep_awaiter sleep_until(std::chrono::steady_clock::time_point t) noexcept {
  return detail::sleep_awaiter(t);
}

}  // namespace turnstile
