// timeout.hpp - give something a limited time.
//
// Behind it: detail/stop_region.hpp (how it is stopped), detail/timer.hpp (when).
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/child.hpp>
#include <turnstile/detail/first_error.hpp>
#include <turnstile/detail/stop_region.hpp>
#include <turnstile/detail/timer.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/sleep.hpp>

#include <chrono>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

namespace turnstile {
namespace detail {

// Asks what runs below to stop when its time is over. The one child's end is all there is to wait
// for.
//
// Edges  over is written in the timer's call and read after cancel, which comes after that
class time_limit : public countdown, private timer {
 public:
  time_limit() noexcept : timer(&time_is_over) {}
  // Of a coroutine that is destroyed while it waits, the timer is still there.
  ~time_limit() { static_cast<void>(cancel()); }

  void note(std::size_t, const std::exception_ptr&) noexcept {}

  stop_region& below() noexcept { return below_; }

  void begin(std::chrono::nanoseconds time) noexcept {
    if (time == std::chrono::nanoseconds::zero()) return time_is_over(*this);
    const time_point end = later(timer_now(), time);
    if (end != (time_point::max)()) start(end);  // else it is for ever
  }

  // When the child has ended. True: its time was over, and nobody else wanted it to stop.
  bool end() noexcept {
    static_cast<void>(cancel());
    below_.leave();
    return over_ && !below_.surroundings_stopped();
  }

 private:
  static void time_is_over(timer& t) noexcept {
    auto& self = static_cast<time_limit&>(t);
    self.over_ = true;
    self.below_.request_stop();
  }

  guarded<bool> over_{false};
  stop_region below_;
};

template <class A>
class [[nodiscard("nothing runs until the result is awaited")]] timeout_awaiter {
  using only = child<A, time_limit>;
  using value = typename only::value;

 public:
  timeout_awaiter(A&& a, std::chrono::nanoseconds time) : child_(std::forward<A>(a)), time_(time) {}
  timeout_awaiter(timeout_awaiter&& other) : child_(std::move(other.child_)), time_(other.time_) {}

  bool await_ready() const noexcept { return false; }

  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) {
    prepare_timers();
    limit_.arm(h, 1);
    stop_region& below = limit_.below();
    below.enter(h);
    limit_.begin(time_);
    return child_.prepare(limit_, 0, below.frame(), below.outside()).run_alone(h);
  }

  value await_resume() {
    const bool too_late = limit_.end();
    child_.adopt_what_it_holds();
    if (too_late && is_cancellation(child_.error())) throw deadline_exceeded();
    return child_.get();
  }

 private:
  only child_;
  std::chrono::nanoseconds time_;
  time_limit limit_;
};

}  // namespace detail

/// Runs `a` and gives what it gives. When `d` has passed, `a` is asked to stop: current_stop_token
/// says so, and whatever it waits for in the library ends with operation_cancelled. timeout resumes
/// when `a` has ended, so what does not wait in the library should look at its token. If `d` is not
/// positive, the stop is requested before `a` starts, which then ends at its first wait in the
/// library.
///
/// Memory     the awaiter sees what `a` wrote
/// Progress   does not block a thread. At the end of the process, from when `thread_pool::shared()`
///            ends, no time is up any more. A stop goes from each timeout or when_any to those
///            within it by recursion: what is nested deeply needs stack where it is requested, some
///            300 bytes a level in a debug build
/// Runs on    the awaiting thread until `a` first suspends; callbacks that were registered with its
///            token are called on the thread of the library's timers, and should be short
/// Resumes    where `a` ended
/// Throws     what `a` throws; deadline_exceeded in place of an operation_cancelled, if the time
///            was up and the surroundings were not stopped. A value or another error that `a` gives
///            all the same is passed on. `std::system_error`, before `a` begins, if the process's
///            first wait for a time cannot start the thread that it needs
/// Cancel     a stop of what surrounds it is passed on to `a`
/// Lifetime   an rvalue is kept in the awaiting frame; a stop state is allocated, and a frame
///            unless `a` is a task
template <detail::awaitable A, class Rep, class Period>
auto timeout(A&& a, std::chrono::duration<Rep, Period> d) {
  return detail::timeout_awaiter<A>(std::forward<A>(a), detail::whole_nanoseconds(d));
}

}  // namespace turnstile
