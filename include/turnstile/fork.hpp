// fork.hpp - let something run beside what forks it.
//
// Behind it: detail/child.hpp (who has ended), lib/executor (where forks lie).
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/child.hpp>
#include <turnstile/detail/suspended.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <utility>

namespace turnstile {

namespace detail {

template <class A>
class fork_awaiter;

// The one child's end is all there is to wait for.
class only_end : public countdown {
 public:
  void note(std::size_t, const std::exception_ptr&) noexcept {}
};

}  // namespace detail

/// What fork gives: an awaitable, to be awaited once, as an rvalue; may be moved until then.
template <class A>
class [[nodiscard("nothing runs until the result is awaited")]] forked {
 public:
  explicit forked(A&& a) : what_(std::forward<A>(a)) {}

  detail::fork_awaiter<A> operator co_await() && {
    return detail::fork_awaiter<A>(std::move(*this));
  }

 private:
  template <class>
  friend struct detail::child_of;

  A what_;
};

namespace detail {

template <class A>
class [[nodiscard("nothing runs until the result is awaited")]] fork_awaiter {
  using only = child<forked<A>, only_end>;

 public:
  explicit fork_awaiter(forked<A>&& a) : child_(std::move(a)) {}
  fork_awaiter(fork_awaiter&& other) noexcept : child_(std::move(other.child_)) {}

  bool await_ready() const noexcept { return false; }

  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) {
    end_.arm(h, 1);
    return child_.prepare(end_, 0, chain_for(h)).run_alone(h);
  }

  typename only::value await_resume() {
    child_.adopt_what_it_holds();
    return child_.get();
  }

 private:
  only child_;
  only_end end_;
};

}  // namespace detail

/// Lets `a` run beside what awaits it, on the same executor. Meant for children: with
/// `co_await when_all(fork(left()), right())` another thread may take left() while this one runs
/// right(). On a pool's worker it is put on top of that worker's own stack of forks, so what a
/// computation leaves behind grows with its depth and not with its size.
///
/// Forking costs less than a post, and more than a call: what takes less than a microsecond should
/// run in place. For a coroutine that should only let others run first there is yield().
///
/// Threads    awaited from any; an idle worker of the same pool may take it
/// Order      a worker takes its own forks newest first and before its other jobs, others take the
///            oldest.
///            Endless forks starve nobody: other jobs, and those from outside, have a turn once in
///            61 jobs, the oldest fork once in some 4000
/// Memory     the awaiter sees what `a` wrote
/// Runs on    the executor that the awaiting coroutine runs on, until `a` first suspends: a pool's
///            worker keeps it, anywhere else it is posted; without one it runs at once
/// Resumes    where `a` ended, or the last of its siblings
/// Throws     what `a` throws
/// Cancel     a stop of what surrounds it reaches it as any child; one that has not begun begins
///            all the same
/// Progress   lock-free while the worker's stack of 256 has room, and a system call if it wakes
///            another one; beyond that, and elsewhere, as a post
/// Lifetime   an rvalue is kept in the awaiting frame; for a task nothing is allocated
template <detail::awaitable A>
forked<A> fork(A&& a) {
  return forked<A>(std::forward<A>(a));
}

}  // namespace turnstile
