// branch.hpp - a task at the root of something awaited from outside a coroutine: by a plain thread,
// a scope, a section's strand, or as one of several children.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/task.hpp>

#include <coroutine>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// A value that co_await gives, as something that can be kept.
template <class T>
using kept = std::conditional_t<std::is_rvalue_reference_v<T>, std::remove_cvref_t<T>, T>;

template <class T>
class branch {
 public:
  using promise_type = task_promise<T>;

  branch() noexcept = default;
  branch(task<T>&& t) noexcept : handle_(std::exchange(t.handle_, {})) {}
  branch(branch&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  branch& operator=(branch&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~branch() { destroy(); }

  void destroy() noexcept {
    if (handle_) std::exchange(handle_, {}).destroy();
  }

  // `listener` hears of the end. It runs on `chain`, of which it takes over a share.
  void prepare(branch_end& listener, chain_frame* chain) noexcept {
    prepare(listener, chain, chain);
  }
  // What is on `chain` above `base` counts as acquired by the branch.
  void prepare(branch_end& listener, chain_frame* chain, chain_frame* base) noexcept {
    task<T>::require_unused(handle_);
    handle_.promise().prepare(listener, chain, base);
  }
  // Until it first suspends. The branch may be gone afterwards.
  void run() {
    const chain_scope as{share(handle_.promise().saved())};
    detail::run_to_suspension(handle_);
  }
  // The same, to be returned from the await_suspend of `from`.
  std::coroutine_handle<> run_after(std::coroutine_handle<> from) noexcept {
    return handle_.promise().go_to(from, handle_);
  }

  // When it has ended.
  chain_frame* take_left() noexcept { return handle_.promise().take_left(); }
  result<T>& got() noexcept { return handle_.promise().got(); }

 private:
  std::coroutine_handle<promise_type> handle_;
};

template <class A>
task<kept<awaited<A>>> as_task(A a) {
  co_return co_await static_cast<A&&>(a);
}

// A is a value, or a reference to something that outlives the branch. A task is a branch as it is.
template <class A>
branch<kept<awaited<A>>> make_branch(std::type_identity_t<A>&& a) {
  if constexpr (std::is_same_v<A, task<kept<awaited<A>>>>) {
    return std::move(a);
  } else {
    return detail::as_task<A>(static_cast<A&&>(a));
  }
}

}  // namespace turnstile::detail
