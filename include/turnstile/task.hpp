// task.hpp - a coroutine that starts when it is awaited.
//
// Behind it: detail/chain_promise.hpp (which sections it holds), detail/transfer.hpp (no stack
// growth).
#pragma once

#include <turnstile/detail/chain_promise.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/result.hpp>
#include <turnstile/detail/suspended.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <utility>

namespace turnstile {

template <class T = void>
class task;

namespace detail {

template <class T>
class branch;

// Hears that a task has ended which nobody awaits. Called once, on the thread where it ended; the
// task's frame may be destroyed in the call. What is returned goes on in its stead; null for
// nothing.
struct branch_end {
  using call = std::coroutine_handle<> (*)(branch_end&) noexcept;

  explicit branch_end(call c) noexcept : ended(c) {}
  call ended;
};

template <class T>
class task_promise_base : public coroutine_promise {
 public:
  struct end {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) const noexcept {
      task_promise_base& p = h.promise();
      suspending now{h, static_cast<chain_promise*>(&p)};
      const bool leaves_own = p.finish(now.is_known());
      now.begin_end();
      if (leaves_own || now.is_in_place()) [[unlikely]]
        return go_on_apart(p);
      const std::coroutine_handle<> next = p.who_goes_on();
      if (!next) {  // the frame may be gone
        if (now.is_known()) give_back(nullptr);
        return std::noop_coroutine();
      }
      if (now.is_known()) now.begin();  // else whoever has resumed it goes on in what it was
      return p.go_to(h, next);
    }

    // Whoever has resumed it goes on afterwards in what it was, or as nobody. Who awaits it may be
    // somebody else's coroutine, which puts no chain of its own in place.
    TURNSTILE_COLD static std::coroutine_handle<> go_on_apart(task_promise_base& p) noexcept {
      const chain_scope as{share(p.base())};
      if (const std::coroutine_handle<> next = p.who_goes_on()) run_to_suspension(next);
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

  end final_suspend() const noexcept { return {}; }
  // Also of a local's destructor, when there is a value already.
  void unhandled_exception() noexcept { result_.replace(std::current_exception()); }

  bool is_used() const noexcept { return continuation_ || listener_ != nullptr; }

  // To be returned from the await_suspend of who awaits the task.
  template <class P>
  std::coroutine_handle<> start(std::coroutine_handle<> self,
                                std::coroutine_handle<P> continuation) {
    start_on(chain_for(continuation));  // may throw, and then the task has not been awaited
    continuation_ = continuation;
    return go_to(continuation, self);
  }

  // Before it is run without being awaited: see branch.hpp.
  void prepare(branch_end& listener, chain_frame* chain, chain_frame* base) noexcept {
    listener_ = &listener;
    start_on(chain, base);
  }

  // To be returned from the await_suspend of `from`, in favour of this coroutine or of who goes on
  // after it.
  std::coroutine_handle<> go_to(std::coroutine_handle<> from, std::coroutine_handle<> to) noexcept {
    return transfer(from, to, node_);  // this may be gone
  }

  T take() {
    if (chain_frame* const left = take_left()) adopt_holds(*left);
    return result_.take();
  }
  result<T>& got() noexcept { return result_; }

 protected:
  result<T> result_;

 private:
  // Null: nobody does, and this may be gone.
  std::coroutine_handle<> who_goes_on() noexcept {
    return listener_ == nullptr ? continuation_ : listener_->ended(*listener_);
  }

  std::coroutine_handle<> continuation_;
  branch_end* listener_ = nullptr;  // in its stead
  transfer_node node_;
};

template <class T>
class task_promise : public task_promise_base<T> {
 public:
  task<T> get_return_object() noexcept;

  template <class U = T>
    requires std::convertible_to<U&&, T>
  void return_value(U&& value) noexcept {
    this->result_.run([&]() -> T { return std::forward<U>(value); });
  }
};

template <>
class task_promise<void> : public task_promise_base<void> {
 public:
  task<void> get_return_object() noexcept;
  void return_void() noexcept {
    result_.run([] {});
  }
};

}  // namespace detail

/// A lazily started coroutine with a result. Awaited once, as an rvalue; may be moved until then.
///
/// Threads    a task is used by one thread at a time
/// Memory     the awaiter sees what the task wrote
/// Runs on    the awaiting thread until it first suspends, then wherever it is resumed
/// Resumes    the awaiting coroutine resumes where the task ended, in constant stack
/// Throws     what the task's body throws, at the co_await
/// Cancel     a stop of what surrounds the await ends what the task waits for in the library; its
///            own code is never stopped
/// Lifetime   its frame is allocated by the call and freed with the task; a thread keeps some of
///            the frames that it frees, to give them out again (detail/recycled.hpp)
template <class T>
class [[nodiscard("a task does not start until it is awaited")]] task {
 public:
  using promise_type = detail::task_promise<T>;

  task(task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  task& operator=(task&& other) noexcept {
    task(std::move(other)).swap(*this);
    return *this;
  }
  ~task() {
    if (handle_) handle_.destroy();
  }

  void swap(task& other) noexcept { std::swap(handle_, other.handle_); }

  auto operator co_await() && noexcept { return awaiter(handle_); }
  // The line that compilers show says what to do.
  void operator co_await() & = delete;  // a task is awaited as an rvalue: co_await std::move(t)

 private:
  friend promise_type;
  friend detail::branch<T>;
  using handle = std::coroutine_handle<promise_type>;

  class awaiter {
   public:
    explicit awaiter(handle h) noexcept : handle_(h) {}
    bool await_ready() const noexcept {
      require_unused(handle_);
      return false;
    }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> continuation) const noexcept {
      return handle_.promise().start(handle_, continuation);
    }
    T await_resume() const { return handle_.promise().take(); }

   private:
    handle handle_;
  };

  explicit task(handle h) noexcept : handle_(h) {}

  static void require_unused(handle h) noexcept {
    if (!h) detail::contract_break("", "a task is awaited that was moved from", {});
    if (h.promise().is_used()) detail::contract_break("", "a task is awaited twice", {});
  }

  handle handle_;
};

namespace detail {

template <class T>
task<T> task_promise<T>::get_return_object() noexcept {
  return task<T>(std::coroutine_handle<task_promise>::from_promise(*this));
}

inline task<void> task_promise<void>::get_return_object() noexcept {
  return task<void>(std::coroutine_handle<task_promise>::from_promise(*this));
}

}  // namespace detail
}  // namespace turnstile
