// completion_awaiter.hpp - what co_await stream.completion() and co_await event do.
#pragma once

#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/lane.hpp>
#include <turnstile/detail/suspended.hpp>

#include <coroutine>
#include <exception>
#include <utility>

namespace turnstile::detail {

// Where a coroutine goes on that waits for a device: as it would from a sleep.
executor_ref executor_after_device() noexcept;

class [[nodiscard("nothing is waited for until the result is awaited")]] completion_awaiter
    : private suspended<job>,
      private point_waiter {
 public:
  // Waits for all that was given to `l` when it is awaited.
  explicit completion_awaiter(lane_ref l) noexcept : point_waiter(&go_on), lane_(std::move(l)) {}
  // Null: that is reached.
  explicit completion_awaiter(point_ref p) noexcept : point_waiter(&go_on), point_(std::move(p)) {}
  completion_awaiter(completion_awaiter&& other) noexcept
      : point_waiter(&go_on),
        lane_(std::move(other.lane_)),
        point_(std::move(other.point_)),
        once_(std::move(other.once_)) {}

  bool await_ready() {
    once_.begin();
    if (lane_) point_ = lane_->record_to_wait();
    return !point_ || point_->is_reached();
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h, executor_after_device());
    once_.note_waiting();
    if (point_->add(*this)) return true;  // this may be gone
    once_.note_going_on();
    stay();
    return false;
  }

  void await_resume() {
    once_.note_going_on();
    if (point_ && point_->failed()) [[unlikely]]
      std::rethrow_exception(point_->error());
  }

 private:
  static void go_on(point_waiter& w) noexcept {
    auto& self = static_cast<completion_awaiter&>(w);
    job_access::home(self).post(self);  // self may be gone
  }

  lane_ref lane_;
  point_ref point_;
  for_once<"wait for a device", "waits for a device"> once_;
};

}  // namespace turnstile::detail
