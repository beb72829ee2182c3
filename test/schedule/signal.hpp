// signal.hpp - what a coroutine waits for until somebody gives it.
#pragma once

#include "schedule/scenario.hpp"

#include <coroutine>

namespace schedule {

// Resumed by hand, once, on whatever thread; knows nothing of the library.
class signal {
 public:
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> h) noexcept {
    void* none = nullptr;
    return waiter_.compare_exchange_strong(none, h.address(), turnstile::detail::acq_rel,
                                           turnstile::detail::acquire);
  }
  void await_resume() const noexcept {}

  void give() noexcept {
    void* const waiter = waiter_.exchange(this, turnstile::detail::acq_rel);
    if (waiter != nullptr) std::coroutine_handle<>::from_address(waiter).resume();
  }

 private:
  atomic<void*> waiter_{nullptr};
};

}  // namespace schedule
