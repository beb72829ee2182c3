// branch.hpp - the coroutine at the root of something awaited from outside a coroutine: by a plain
// thread, a scope, a section's strand, or one of several children.
#pragma once

#include <turnstile/detail/chain_promise.hpp>
#include <turnstile/detail/result.hpp>

#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// Hears that a branch has ended. Called once, on the thread where it ended; the branch's frame may be
// destroyed in the call. What is returned goes on in its stead; null for nothing.
struct branch_end {
  using call = std::coroutine_handle<> (*)(branch_end&) noexcept;

  explicit branch_end(call c) noexcept : ended(c) {}
  call ended;
};

// A value that co_await gives, as something that can be kept.
template <class T>
using kept = std::conditional_t<std::is_rvalue_reference_v<T>, std::remove_cvref_t<T>, T>;

template <class T>
struct branch_result {
  result<T>* out = nullptr;

  template <class U>
  void return_value(U&& value) noexcept {
    out->run([&]() -> T { return std::forward<U>(value); });
  }
};

template <>
struct branch_result<void> {
  result<void>* out = nullptr;

  void return_void() noexcept {
    out->run([] {});
  }
};

template <class T>
class branch {
 public:
  class promise_type : public coroutine_promise, public branch_result<T> {
   public:
    struct end {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) const noexcept {
        promise_type& p = h.promise();
        p.finish();
        const std::coroutine_handle<> next = p.listener->ended(*p.listener);
        if (!next) return std::noop_coroutine();  // the frame may be gone
        return transfer(h, next, p.node);
      }
      void await_resume() const noexcept {}
    };

    branch get_return_object() noexcept {
      return branch(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    end final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { this->out->fail(std::current_exception()); }

    branch_end* listener = nullptr;
    transfer_node node;
  };

  branch() noexcept = default;
  branch(branch&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  branch& operator=(branch&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~branch() { destroy(); }

  void destroy() noexcept {
    if (handle_) std::exchange(handle_, {}).destroy();
  }

  // What the branch returns or throws goes to `out`, before `listener` hears of the end. It runs on
  // `chain`, of which it takes over a share.
  void prepare(result<T>& out, branch_end& listener, chain_frame* chain) noexcept {
    prepare(out, listener, chain, chain);
  }
  // What is on `chain` above `base` counts as acquired by the branch.
  void prepare(result<T>& out, branch_end& listener, chain_frame* chain,
               chain_frame* base) noexcept {
    promise_type& p = handle_.promise();
    p.out = &out;
    p.listener = &listener;
    p.start_on(chain, base);
  }
  // Until it first suspends. The branch may be gone afterwards.
  void run() { run_to_suspension(handle_); }

  chain_frame* take_left() noexcept { return handle_.promise().take_left(); }

 private:
  explicit branch(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}

  std::coroutine_handle<promise_type> handle_;
};

// A is a value, or a reference to something that outlives the branch.
template <class A>
branch<kept<awaited<A>>> make_branch(A a) {
  co_return co_await static_cast<A&&>(a);
}

}  // namespace turnstile::detail
