// sleep_awaiter.hpp - what co_await sleep_for(d) and sleep_until(t) do.
//
// Three meet at one word: the thread that awaits, the timer and, below whatever can be stopped, the
// stop callback. One of the latter two ends the sleep, and whoever of it and the thread comes last
// posts the coroutine to its executor.
//
// Shape     word   arming --fall_asleep----> asleep
//                  arming --timer, stop----> due, stopped   the thread is last and posts the job
//                  asleep --timer, stop----> due, stopped   the timer or the callback posts it
//
// Edges     Z1  CAS(release) arming to asleep -> CAS(acquire) in end: the callback, which is made
//               after the timer is started; the job
//           Z2  CAS(release) in end -> CAS(acquire on failure) in fall_asleep: the last touch of
//               the frame by who ended the sleep, before that goes on
//           Who comes too late reads the word relaxed and does nothing. Its last touch of the frame
//           is before the end of timer::cancel and of the stop callback, which wait for it.
//
// Progress  Two steps of the word, and those of the timer's queue; does not block a thread
//           otherwise.
//           Without anything around that can be stopped, nothing of that is paid for.
//
// Dangers   The timer may be called, and the callback too, before await_suspend has returned, the
//           callback even inside its constructor. Before the thread's CAS nobody resumes the
//           coroutine, and after it the thread touches nothing of the frame.
//           Who ended the sleep touches nothing after its CAS but to post the job, and the job's
//           post is its last step: so a timer that ended it need not be cancelled.
//
// Proof     test/schedule (sleep), test/resume (sleep), test/stress (timers)
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/timer.hpp>

#include <chrono>
#include <coroutine>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <utility>

namespace turnstile::detail {

class [[nodiscard("nothing is waited for until the result is awaited")]] sleep_awaiter
    : private suspended<job>,
      private timer {
 public:
  explicit sleep_awaiter(time_point until) noexcept : timer(&is_due), until_(until) {}
  explicit sleep_awaiter(std::chrono::nanoseconds time) noexcept
      : timer(&is_due), time_(time), is_relative_(true) {}
  sleep_awaiter(sleep_awaiter&& other) noexcept
      : timer(&is_due),
        until_(other.until_),
        time_(other.time_),
        is_relative_(other.is_relative_),
        once_(std::move(other.once_)) {}

  // Throws operation_cancelled.
  bool await_ready();

  template <class P>
  void await_suspend(std::coroutine_handle<P> h) {
    const executor_ref back = executor_to_come_back_to();
    this->suspend(h, back);
    once_.note_waiting();
    fall_asleep();  // this may be gone
  }

  // Throws operation_cancelled.
  void await_resume();

 private:
  enum class state : std::uint8_t { arming, asleep, due, stopped };

  struct withdraw {
    sleep_awaiter* self;
    void operator()() const noexcept { self->end(state::stopped); }
  };

  static void is_due(timer& t) noexcept { static_cast<sleep_awaiter&>(t).end(state::due); }

  void fall_asleep() noexcept;
  void end(state how) noexcept;
  static executor_ref executor_to_come_back_to();

  time_point until_{};
  std::chrono::nanoseconds time_{};  // if it is relative
  std::stop_token stop_;             // if it can be stopped
  std::optional<stop_callback<withdraw>> withdraws_;
  atomic<state> word_{state::arming};
  bool is_relative_ = false;
  for_once<"sleep", "sleeps"> once_;
};

}  // namespace turnstile::detail
