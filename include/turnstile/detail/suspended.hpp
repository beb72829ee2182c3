// suspended.hpp - a coroutine that waits for the library, as a job that brings it back.
#pragma once

#include <turnstile/detail/request.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/transfer.hpp>

#include <coroutine>
#include <utility>

namespace turnstile::detail {

// Base is job or request. The coroutine goes on as the chain it suspended as, on the executor it is
// sent home to; without one, on the thread that sends it, through that thread's trampoline.
template <class Base>
class suspended : public Base {
 protected:
  // Before anybody else can see this.
  void suspend(std::coroutine_handle<> h, executor_ref back) noexcept {
    waiter_ = h.address();
    chain_ = share(here().chain);
    this->work_ = back ? &resume : &resume_here;
    this->home_ = back;
  }
  void suspend(std::coroutine_handle<> h) noexcept { suspend(h, here().runs_on); }

  // suspend turned out not to be needed.
  void stay() noexcept { drop(chain_); }

  guarded<chain_frame*> chain_;  // the requester's, owned share

 private:
  static void resume(job& j) noexcept {
    auto& self = static_cast<suspended&>(j);
    const auto h = std::coroutine_handle<>::from_address(self.waiter_);
    const chain_scope as{self.chain_};
    run_to_suspension(h);  // self may be gone
  }

  static void resume_here(job& j) noexcept {
    static_cast<suspended&>(j).work_ = &resume;
    bounce(j);
  }

  guarded<void*> waiter_;  // address of the handle: left alone until suspend
};

}  // namespace turnstile::detail
