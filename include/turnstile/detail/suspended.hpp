// suspended.hpp - a coroutine or a thread that waits for the library, as a job that lets it go on.
#pragma once

#include <turnstile/detail/blocked_thread.hpp>
#include <turnstile/detail/chain_promise.hpp>
#include <turnstile/detail/request.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/detail/transfer.hpp>

#include <concepts>
#include <coroutine>

namespace turnstile::detail {

// The calling chain, for a coroutine that waits: a share. Only the library's own coroutines end
// before the bodies do that they were started in. Another one's waits as nobody's where there is no
// memory for a copy: what was accepted has to be served all the same.
template <class P>
chain_frame* chain_for(std::coroutine_handle<P>) noexcept {
  chain_frame* const top = here().chain;
  if constexpr (std::derived_from<P, chain_promise>) {
    return share(top);
  } else {
    return top == nullptr ? nullptr : try_keep(top);
  }
}

// Base is job or request. The coroutine goes on as the chain it suspended as, on the executor it is
// sent home to; without one, on the thread that sends it, through that thread's trampoline. A
// thread is told, by whoever sends it, and never on an executor's threads: all of those may be
// blocked.
template <class Base>
class suspended : public Base {
 public:
  // Null: it is no thread that waits. By who may touch the frame of whoever waits.
  static blocked_thread* thread_behind(Base& b) noexcept {
    if (job_access::home(b) != executor_ref(to_blocked_threads)) [[likely]]
      return nullptr;
    return &static_cast<suspended&>(b).blocked();
  }

 protected:
  // Before anybody else can see this.
  template <class P>
  void suspend(std::coroutine_handle<P> h, executor_ref back) noexcept {
    waiter_ = h.address();
    chain_ = chain_for(h);
    this->work_ = back ? &resume : &resume_here;
    this->home_ = back;
  }
  template <class P>
  void suspend(std::coroutine_handle<P> h) noexcept {
    suspend(h, here().runs_on);
  }

  // By who serves it and lets it go on as part of that. This may be gone.
  void resume_within() noexcept { resume(*this); }

  // The calling thread waits in place.
  void block(blocked_thread& me) noexcept {
    waiter_ = &me;
    chain_ = share(here().chain);
    this->work_ = &signal;
    this->home_ = to_blocked_threads;
  }

  // suspend or block is over, or turned out not to be needed.
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

  static void signal(job& j) noexcept {
    static_cast<suspended&>(j).blocked().signal();  // j may be gone
  }
  blocked_thread& blocked() const noexcept {
    void* const t = waiter_;
    return *static_cast<blocked_thread*>(t);
  }

  guarded<void*> waiter_;  // address of the handle, or a blocked_thread: left alone until then
};

}  // namespace turnstile::detail
