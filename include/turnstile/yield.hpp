// yield.hpp - let others run; run something elsewhere.
#pragma once

#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/executor.hpp>

#include <coroutine>
#include <stdexcept>
#include <utility>

namespace turnstile {
namespace detail {

class [[nodiscard("nothing happens until the result is awaited")]] yield_awaiter
    : private suspended<job> {
 public:
  yield_awaiter() noexcept = default;
  yield_awaiter(yield_awaiter&& other) noexcept : once_(std::move(other.once_)) {}

  bool await_ready() noexcept {
    once_.begin();
    return !here().runs_on;
  }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) noexcept {
    this->suspend(h);
    once_.note_waiting();
    home_.post(*this);  // this may be gone
  }
  void await_resume() noexcept { once_.note_going_on(); }

 private:
  for_once<"yield", "is in a queue"> once_;
};

template <class A>
class [[nodiscard("nothing runs until the result is awaited")]] schedule_awaiter
    : private suspended<job>,
      private branch_end {
  using value = kept<awaited<A>>;

  struct first_step : job {
    explicit first_step(schedule_awaiter& s) noexcept : job(&go), self(&s) {}
    static void go(job& j) noexcept {
      schedule_awaiter& s = *static_cast<first_step&>(j).self;
      s.once_.note_going_on();
      s.root_.run();  // s may be gone
    }
    schedule_awaiter* self;
  };

 public:
  schedule_awaiter(executor_ref to, A&& a)
      : branch_end(&ended_here), to_(to), a_(std::forward<A>(a)), first_(*this) {}
  schedule_awaiter(schedule_awaiter&& other)
      : branch_end(&ended_here),
        to_(other.to_),
        a_(std::forward<A>(other.a_)),
        first_(*this),
        once_(std::move(other.once_)) {}

  ~schedule_awaiter() {
    if (is_away_) this->stay();  // destroyed while what it runs waits
  }

  bool await_ready() noexcept {
    once_.begin();
    return false;
  }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) {
    root_ = detail::make_branch<A>(std::forward<A>(a_));
    this->suspend(h);
    is_away_ = true;
    root_.prepare(*this, share(this->chain_));
    once_.note_waiting();
    to_.post(first_);  // this may be gone
  }
  value await_resume() {
    once_.note_going_on();
    if (chain_frame* const left = root_.take_left()) adopt_holds(*left);
    return root_.got().take();
  }

 private:
  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto& s = static_cast<schedule_awaiter&>(self);
    s.once_.note_waiting();
    s.is_away_ = false;
    detail::resume_at_home(s);
    return {};
  }

  executor_ref to_;
  A a_;
  first_step first_;
  branch<value> root_;
  for_once<"schedule_on", "is in a queue"> once_;
  bool is_away_ = false;  // suspended, and not on its way back
};

}  // namespace detail

/// Goes to the end of the queue of the executor the coroutine runs on; without one it continues at
/// once.
///
/// Resumes    on that executor
/// Cancel     nothing ends it early
/// Lifetime   the coroutine must not be destroyed while it is in the queue
inline detail::yield_awaiter yield() noexcept { return {}; }

/// Runs `a` on `to`, then resumes where it was awaited.
///
/// Memory     the awaiter sees what `a` wrote
/// Runs on    `to`, until `a` first suspends
/// Resumes    on the executor the awaiting coroutine was running on; without one, where `a` ended
/// Throws     what `a` throws; at once: invalid_argument if `to` is empty
/// Cancel     whatever `a` waits for in the library, by what surrounds the awaiting coroutine
/// Lifetime   the awaiting coroutine must not be destroyed while `a`, or itself, is in a queue. A
///            frame is allocated unless `a` is a task
template <detail::awaitable A>
auto schedule_on(executor_ref to, A&& a) {
  if (!to) throw std::invalid_argument("turnstile: schedule_on needs an executor");
  return detail::schedule_awaiter<A>(to, std::forward<A>(a));
}

}  // namespace turnstile
