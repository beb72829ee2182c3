// execution_handle.hpp - an execution that was submitted, and its result.
//
// Behind it: detail/submitted.hpp.
#pragma once

#include <turnstile/detail/submitted.hpp>
#include <turnstile/stream.hpp>

#include <utility>

namespace turnstile {

/// Stands for an execution that was submitted. Awaited once; dropping it detaches, which `post`
/// says more clearly: the execution continues, and its error, if any, goes to on_unobserved_error.
///
/// Threads    members are called by one thread at a time; a suspended await does not count
/// Memory     whatever finds it ready, or resumes after awaiting it, sees what the body wrote
/// Progress   wait-free; awaiting takes the lock of the wait graph in a chain that holds sections,
///            and that of the stop state where something around can be stopped
/// Resumes    on the executor the awaiting coroutine was running on; without one, where the body
///            ended, or on thread_pool::shared() if the wait was stopped
/// Throws     what the body throws, or what refused the request; deadlock_error if the wait would
///            never end; then the handle can be awaited again
/// Cancel     a wait that is stopped from outside ends with operation_cancelled, and the handle can
///            be awaited again; the execution itself continues
/// Lifetime   must not be destroyed while it is awaited: that is reported and aborts. Guards that
///            the body leaves behind are the awaiter's
template <class R>
class execution_handle {
 public:
  execution_handle(execution_handle&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  execution_handle& operator=(execution_handle&& other) noexcept {
    execution_handle taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }
  ~execution_handle() {
    if (state_ != nullptr) state_->drop();
  }

  /// The execution has ended: awaiting it will not suspend.
  bool ready() const noexcept { return state().ready(); }

  auto operator co_await() noexcept { return detail::handle_awaiter<R>(state()); }

  /// Device executions: co_await waits until the body has run and its work is in the order of its
  /// stream, or never will be. It waits for the section's line, not for the device. May be awaited
  /// any number of times, also while the handle is awaited.
  ///
  /// Resumes    as an event does
  /// Throws     deadlock_error if the wait would never end; not what the body throws
  /// Cancel     a wait that is stopped from outside ends with operation_cancelled; the execution
  ///            continues
  /// Lifetime   the handle must not be destroyed or assigned to before the coroutine has resumed
  auto submitted() noexcept { return detail::submitted_awaiter<R>(state()); }

  /// Device executions, after submitted (before that it is a contract break: a line on stderr, and
  /// abort): what is given to `s` from now on does not begin before this work is complete. No
  /// thread waits for that. Throws as stream::wait.
  void wait_on(stream& s) {
    const detail::submitted_mark* const mark = state().submitting();
    if (mark != nullptr && !ready() && !mark->is_told()) {
      state().misused("a stream is to wait for work that is not submitted yet");
    }
    if (detail::point_ref end = state().end_of_work()) s.wait(event(std::move(end)));
  }

 private:
  friend struct detail::handle_access;
  explicit execution_handle(detail::submitted_result<R>* state) noexcept : state_(state) {}

  detail::submitted_result<R>& state() const noexcept {
    if (state_ == nullptr) {
      detail::contract_break("", "an execution_handle is used that was moved from", {});
    }
    return *state_;
  }

  detail::submitted_result<R>* state_;
};

}  // namespace turnstile
