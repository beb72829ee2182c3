// yield.hpp - let others run; run something elsewhere.
#pragma once

#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/executor.hpp>

#include <coroutine>
#include <utility>

namespace turnstile {
namespace detail {

class [[nodiscard("nothing happens until the result is awaited")]] yield_awaiter
    : private suspended<job> {
 public:
  yield_awaiter() noexcept = default;

  bool await_ready() const noexcept { return !here().runs_on; }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) noexcept {
    this->suspend(h);
    home_.post(*this);  // this may be gone
  }
  void await_resume() const noexcept {}
};

template <class A>
class [[nodiscard("nothing runs until the result is awaited")]] schedule_awaiter
    : private suspended<job>,
      private branch_end {
  using value = kept<awaited<A>>;

  struct first_step : job {
    explicit first_step(schedule_awaiter& s) noexcept : job(&go), self(&s) {}
    static void go(job& j) noexcept { static_cast<first_step&>(j).self->root_.run(); }
    schedule_awaiter* self;
  };

 public:
  schedule_awaiter(executor_ref to, A&& a)
      : branch_end(&ended_here), to_(to), a_(std::forward<A>(a)), first_(*this) {}
  schedule_awaiter(schedule_awaiter&& other)
      : branch_end(&ended_here), to_(other.to_), a_(std::forward<A>(other.a_)), first_(*this) {}

  bool await_ready() const noexcept { return false; }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) {
    root_ = make_branch<A>(std::forward<A>(a_));
    this->suspend(h);
    root_.prepare(*this, chain_for(h));
    to_.post(first_);  // this may be gone
  }
  value await_resume() {
    if (chain_frame* const left = root_.take_left()) adopt_holds(*left);
    return root_.got().take();
  }

 private:
  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    resume_at_home(static_cast<schedule_awaiter&>(self));
    return {};
  }

  executor_ref to_;
  A a_;
  first_step first_;
  branch<value> root_;
};

}  // namespace detail

/// Goes to the end of the queue of the executor the coroutine runs on; without one it goes on at
/// once.
inline detail::yield_awaiter yield() noexcept { return {}; }

/// Runs `a` on `to`, then goes on where it was awaited from.
///
/// Runs on    `to`, until `a` first suspends
/// Resumes    on the executor the awaiting coroutine was running on; without one, where `a` ended
/// Throws     what `a` throws
template <detail::awaitable A>
auto schedule_on(executor_ref to, A&& a) {
  return detail::schedule_awaiter<A>(to, std::forward<A>(a));
}

}  // namespace turnstile
