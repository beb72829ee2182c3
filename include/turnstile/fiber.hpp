// fiber.hpp - code with a stack of its own, which waits at any depth of calls without blocking a
// thread.
//
// Behind it: lib/fiber.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/fiber_core.hpp>
#include <turnstile/executor.hpp>
#include <turnstile/fiber_options.hpp>

#include <functional>
#include <source_location>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace turnstile {

template <class R>
class fiber;

namespace detail {

// Owns the handle's share of the fiber.
template <class R>
class fiber_share {
 public:
  explicit fiber_share(fiber_result<R>* f) noexcept : fiber_(f) {}
  fiber_share(fiber_share&& other) noexcept : fiber_(std::exchange(other.fiber_, nullptr)) {}
  fiber_share& operator=(fiber_share&& other) noexcept {
    fiber_share taken(std::move(other));
    std::swap(fiber_, taken.fiber_);
    return *this;
  }
  ~fiber_share() {
    if (fiber_ != nullptr) fiber_->drop();
  }

  fiber_result<R>& get() const noexcept {
    if (fiber_ == nullptr) contract_break("", "a fiber is used that was moved from or awaited", {});
    return *fiber_;
  }

 private:
  fiber_result<R>* fiber_;
};

template <class R>
class [[nodiscard("nothing is waited for until the result is awaited")]] fiber_awaiter
    : private join_awaiter {
 public:
  explicit fiber_awaiter(fiber_share<R>&& f) noexcept
      : join_awaiter(f.get().scope(), f.get().place()), fiber_(std::move(f)) {}
  fiber_awaiter(fiber_awaiter&&) noexcept = default;

  using join_awaiter::await_ready;
  using join_awaiter::await_suspend;
  R await_resume() {
    waited();
    return fiber_.get().take();
  }

 private:
  fiber_share<R> fiber_;
};

}  // namespace detail

/// A function that runs on a stack of its own, and its result. Awaited once, as an rvalue.
///
/// Threads    the handle is used by one thread at a time
/// Memory     the awaiter sees what the fiber wrote
/// Progress   switching is wait-free; beginning and ending take a lock of the pool of stacks
/// Runs on    the executor it was spawned on; after a wait, where any coroutine would resume
/// Resumes    the awaiting coroutine on the executor it was running on; without one, where the
///            fiber ended
/// Throws     what the function throws
/// Cancel     a stop of the coroutine that awaits it is passed on to the fiber, whose end is still
///            awaited. In the fiber, waits in the library then end with operation_cancelled, later
///            ones too; a wait in a section's line does so at once with fiber_options::stoppable,
///            else when its turn comes
/// Lifetime   dropping the handle detaches: the fiber continues, and its error, if any, goes to
///            on_unobserved_error, but an operation_cancelled does not after a stop was requested.
///            Its stack is freed when the function has returned. A fiber is not part of the chain
///            of awaits that spawned it; guards that it still has at its end are its awaiter's
template <class R>
class fiber {
 public:
  fiber(fiber&&) noexcept = default;
  fiber& operator=(fiber&&) noexcept = default;

  /// The function has returned or thrown: awaiting it will not suspend.
  bool ready() const noexcept { return share_.get().scope().idle(); }

  /// Asks the fiber to stop.
  void request_stop() noexcept { share_.get().scope().request_stop(); }

  auto operator co_await() && noexcept { return detail::fiber_awaiter<R>(std::move(share_)); }

 private:
  template <class F>
  friend auto spawn_fiber(executor_ref, F&&, const fiber_options&, std::source_location);

  explicit fiber(detail::fiber_result<R>* f) noexcept : share_(f) {}

  detail::fiber_share<R> share_;
};

/// Starts `f()` on a stack of its own, on `on`. It runs inside the call only if `on` runs jobs
/// within its `post`.
///
/// Throws     `std::invalid_argument` if `on` is empty; bad_alloc, also if there is no room for a
///            stack
/// Lifetime   `f` is copied or moved into allocated memory; `on` must outlive the fiber
template <class F>
auto spawn_fiber(executor_ref on, F&& f, const fiber_options& options = detail::default_fiber,
                 std::source_location where = std::source_location::current()) {
  using function = std::decay_t<F>;
  constexpr bool is_callable = std::is_invocable_v<function>;
  static_assert(is_callable, "what a fiber runs is called as an rvalue, without arguments");
  if constexpr (is_callable) {
    using value = detail::kept<std::invoke_result_t<function>>;
    if (!on) throw std::invalid_argument("turnstile: a fiber needs an executor to run on");
    auto* const started =
        new detail::fiber_state<function, value>(std::forward<F>(f), options, where);
    fiber<value> handle(started);
    started->start(on);
    return handle;
  }
}

/// True in a fiber's own code, which may call await; false in a section's body or a coroutine that
/// happens to run on its stack. But true in one that the fiber's own code has resumed by its
/// handle, which cannot be noticed.
inline bool in_fiber() noexcept { return detail::fiber_core::own_code() != nullptr; }

/// Awaits `a` in a fiber, from any depth of calls, and returns what co_await would; by value, what
/// would be an rvalue reference into an awaiter that ends with the call. The thread does other work
/// meanwhile. Outside a fiber: one line on stderr, and abort.
///
/// Resumes    as co_await does in a task; perhaps on another thread, so nothing that belongs to a
///            thread (`thread_local` values, a locked std::mutex) may be kept across it
/// Throws     as co_await. Not to be called inside a `catch` block
template <detail::awaitable A>
typename detail::fiber_wait<A>::value await(A&& a) {
  detail::fiber_core& f = detail::fiber_core::running();
  return detail::fiber_wait<A>(std::forward<A>(a)).await(f);
}

}  // namespace turnstile
