// coroutine_types.hpp - coroutine types as other libraries have them. They know nothing of this
// one.
#pragma once

#include <atomic>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <mutex>
#include <new>
#include <optional>
#include <queue>
#include <thread>
#include <utility>

namespace support {

// Another library's loop, of handles that it resumes.
class own_loop {
 public:
  void post(std::coroutine_handle<> h) {
    const std::lock_guard lock(mutex_);
    ready_.push(h);
  }
  void run() {
    const own_loop* const before = std::exchange(running_, this);
    while (const std::coroutine_handle<> h = next()) h.resume();
    running_ = before;
  }
  // This thread is inside run().
  bool here() const { return running_ == this; }

 private:
  std::coroutine_handle<> next() {
    const std::lock_guard lock(mutex_);
    if (ready_.empty()) return {};
    const std::coroutine_handle<> h = ready_.front();
    ready_.pop();
    return h;
  }

  static inline thread_local const own_loop* running_ = nullptr;

  std::mutex mutex_;
  std::queue<std::coroutine_handle<>> ready_;
};

// --- what a promise does to what is awaited ------------------------------------------------------

template <class A>
decltype(auto) awaiter_behind(A&& a) {
  if constexpr (requires { std::forward<A>(a).operator co_await(); }) {
    return std::forward<A>(a).operator co_await();
  } else {
    return std::forward<A>(a);
  }
}

template <class A>
using awaiter_behind_t = decltype(awaiter_behind(std::declval<A>()));

struct as_it_is {
  template <class A>
  static A&& transform(own_loop*, A&& a) noexcept {
    return std::forward<A>(a);
  }
};

// Handed on through an awaiter of its own. A is what is kept: a value, or a reference.
template <class A>
class handed_on {
 public:
  explicit handed_on(A&& a) : what_(std::forward<A>(a)), awaiter_(awaiter_behind<A>(as_given())) {}
  handed_on(const handed_on&) = delete;
  handed_on& operator=(const handed_on&) = delete;

  bool await_ready() { return awaiter_.await_ready(); }
  template <class P>
  auto await_suspend(std::coroutine_handle<P> h) {
    return awaiter_.await_suspend(h);
  }
  decltype(auto) await_resume() { return awaiter_.await_resume(); }

 private:
  A&& as_given() noexcept { return static_cast<A&&>(what_); }

  A what_;
  awaiter_behind_t<A> awaiter_;
};

struct by_value {
  template <class A>
  static handed_on<A> transform(own_loop*, A&& a) {
    return handed_on<A>(std::forward<A>(a));
  }
};

struct by_reference {
  template <class A>
  static handed_on<A&&> transform(own_loop*, A&& a) {
    return handed_on<A&&>(std::forward<A>(a));
  }
};

// The awaiter hears of a coroutine, and not of which type.
template <class A>
class erased : public handed_on<A> {
 public:
  using handed_on<A>::handed_on;
  auto await_suspend(std::coroutine_handle<> h) { return handed_on<A>::await_suspend(h); }
};

struct type_erased {
  template <class A>
  static erased<A&&> transform(own_loop*, A&& a) {
    return erased<A&&>(std::forward<A>(a));
  }
};

// A coroutine in between waits, and the one that asked goes on in its own loop, always.
template <class A>
class brought_home {
  struct courier {
    struct promise_type {
      courier get_return_object() const noexcept { return {}; }
      std::suspend_never initial_suspend() const noexcept { return {}; }
      std::suspend_never final_suspend() const noexcept { return {}; }
      void return_void() const noexcept {}
      [[noreturn]] void unhandled_exception() const noexcept { std::terminate(); }
    };
  };

  // The wait alone: what comes out of it is for the one that asked. A refusal is thrown by the
  // others.
  class wait {
   public:
    explicit wait(brought_home& of) noexcept : of_(&of) {}
    bool await_ready() const { return of_->inner_.await_ready(); }
    template <class P>
    auto await_suspend(std::coroutine_handle<P> h) const {
      return of_->inner_.await_suspend(h);
    }
    void await_resume() const noexcept {}

   private:
    brought_home* of_;
  };

  static courier carry(brought_home& self, own_loop& home, std::coroutine_handle<> h) {
    try {
      co_await wait(self);
    } catch (...) {
      self.refused_ = std::current_exception();
    }
    home.post(h);
  }

 public:
  brought_home(own_loop& home, A&& a) : home_(&home), inner_(std::forward<A>(a)) {}
  brought_home(const brought_home&) = delete;
  brought_home& operator=(const brought_home&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) { carry(*this, *home_, h); }
  decltype(auto) await_resume() {
    if (refused_) std::rethrow_exception(refused_);
    return inner_.await_resume();
  }

 private:
  own_loop* home_;
  handed_on<A> inner_;
  std::exception_ptr refused_;
};

struct at_home {
  template <class A>
  static brought_home<A&&> transform(own_loop* home, A&& a) {
    return brought_home<A&&>(*home, std::forward<A>(a));
  }
};

// --- coroutine types -----------------------------------------------------------------------------

// What those below have in common: the end, which somebody may wait for, and the error.
class ended_flag {
 public:
  bool done() const noexcept { return ended_.load(); }
  void end() noexcept { ended_.store(true); }  // the frame may be gone

  std::exception_ptr error;

 private:
  std::atomic<bool> ended_{false};
};

// Allocates frames in its own way, and counts them.
struct own_frames {
  static void* operator new(std::size_t n) {
    ++made;
    return ::operator new(n);
  }
  static void operator delete(void* at) noexcept { ::operator delete(at); }

  static inline std::atomic<int> made{0};
};

// Starts when it is told to or awaited, and goes on with who awaits it by symmetric transfer.
template <class How, class T = void>
class lazy;

template <class T>
struct lazy_result {
  std::optional<T> value;
  void return_value(T v) { value.emplace(std::move(v)); }
  T take() { return std::move(*value); }
};
template <>
struct lazy_result<void> {
  void return_void() const noexcept {}
  void take() const noexcept {}
};

template <class How, class T>
class [[nodiscard]] lazy {
  struct goes_on {
    bool await_ready() const noexcept { return false; }
    template <class P>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) const noexcept {
      if (const std::coroutine_handle<> to = h.promise().continuation) return to;
      h.promise().end();
      return std::noop_coroutine();
    }
    void await_resume() const noexcept {}
  };

 public:
  class promise_type : public own_frames, public ended_flag, public lazy_result<T> {
   public:
    promise_type() = default;
    // The loop is the coroutine's first parameter.
    template <class... Rest>
    explicit promise_type(own_loop& home, Rest&...) noexcept : home_(&home) {}

    lazy get_return_object() noexcept {
      return lazy(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    goes_on final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { this->error = std::current_exception(); }

    template <class A>
    decltype(auto) await_transform(A&& a) {
      return How::transform(home_, std::forward<A>(a));
    }

    std::coroutine_handle<> continuation;

   private:
    own_loop* home_ = nullptr;
  };

  lazy(lazy&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  lazy& operator=(lazy&&) = delete;
  ~lazy() {
    if (handle_) handle_.destroy();
  }

  // From outside of any coroutine.
  void start() const { handle_.resume(); }
  bool done() const noexcept { return handle_.promise().done(); }
  void wait() const noexcept {
    while (!done()) std::this_thread::yield();
  }
  void rethrow() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h) const noexcept {
    handle_.promise().continuation = h;
    return handle_;
  }
  T await_resume() const {
    rethrow();
    return handle_.promise().take();
  }

 private:
  explicit lazy(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}

  std::coroutine_handle<promise_type> handle_;
};

// Gives value after value, and may await in between: then `next` returns without one.
class steps {
 public:
  class promise_type : public ended_flag {
   public:
    steps get_return_object() noexcept {
      return steps(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    auto final_suspend() const noexcept {
      struct over {
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<promise_type> h) const noexcept {
          h.promise().end();
        }
        void await_resume() const noexcept {}
      };
      return over{};
    }
    std::suspend_always yield_value(int value) noexcept {
      given.emplace(value);
      return {};
    }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }

    std::optional<int> given;
  };

  steps(steps&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  steps& operator=(steps&&) = delete;
  ~steps() {
    if (handle_) handle_.destroy();
  }

  bool done() const noexcept { return handle_.promise().done(); }
  std::optional<int> next() {
    handle_.resume();
    return take();
  }
  // What it gave after it was resumed by somebody else.
  std::optional<int> take() { return std::exchange(handle_.promise().given, std::nullopt); }

 private:
  explicit steps(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}

  std::coroutine_handle<promise_type> handle_;
};

}  // namespace support
