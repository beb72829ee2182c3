// execution_handle.hpp - an execution that was submitted, and its result.
//
// Behind it: detail/submitted.hpp.
#pragma once

#include <turnstile/detail/submitted.hpp>

#include <coroutine>
#include <source_location>
#include <utility>

namespace turnstile {

/// Stands for an execution that was submitted. Awaited once; dropping it detaches: the execution
/// goes on, and its error, if any, goes to on_unobserved_error.
///
/// Threads    used by one thread at a time
/// Resumes    on the executor the awaiting coroutine was running on; without one, where the body ended
/// Throws     what the body throws, or what refused the request; deadlock_error if the wait would
///            never end; then the handle can be awaited again
/// Cancel     a wait that is stopped from outside ends with operation_cancelled, and the handle can be
///            awaited again; the execution itself goes on
template <class R>
class [[nodiscard("dropping the handle detaches; post says that more clearly")]] execution_handle {
 public:
  execution_handle(execution_handle&& other) noexcept
      : state_(std::exchange(other.state_, nullptr)) {}
  execution_handle& operator=(execution_handle&& other) noexcept {
    std::swap(state_, other.state_);
    return *this;
  }
  ~execution_handle() {
    if (state_ != nullptr) state_->drop();
  }

  /// The execution has ended: awaiting it will not suspend.
  bool ready() const noexcept { return state().ready(); }

  auto operator co_await() noexcept { return detail::handle_awaiter<R>(state()); }

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
