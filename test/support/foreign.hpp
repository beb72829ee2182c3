// foreign.hpp - a coroutine type that knows nothing of the library.
#pragma once

#include <atomic>
#include <coroutine>
#include <exception>
#include <thread>
#include <utility>

namespace support {

// Starts at once, goes on wherever it is resumed, and keeps its frame until it is destroyed.
class foreign {
  struct end {
    bool await_ready() const noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> h) const noexcept {
      h.promise().ended.store(true);  // the frame may be gone
    }
    void await_resume() const noexcept {}
  };

 public:
  struct promise_type {
    foreign get_return_object() noexcept {
      return foreign(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    end final_suspend() const noexcept { return {}; }
    void return_void() const noexcept {}
    void unhandled_exception() noexcept { error = std::current_exception(); }

    std::exception_ptr error;
    std::atomic<bool> ended{false};
  };

  foreign(foreign&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  foreign& operator=(foreign&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~foreign() {
    if (handle_) handle_.destroy();
  }

  bool done() const noexcept { return handle_.promise().ended.load(); }
  // Until it has ended, on whatever thread.
  void wait() const noexcept {
    while (!done()) std::this_thread::yield();
  }
  // Once it has ended.
  void rethrow() const {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
  }

 private:
  explicit foreign(std::coroutine_handle<promise_type> h) noexcept : handle_(h) {}

  std::coroutine_handle<promise_type> handle_;
};

// Awaits `a`, and says when that is over.
template <class A>
foreign await_in_foreign(A a, bool& over) {
  co_await std::move(a);
  over = true;
}

// What no coroutine may do with an awaitable that is for once.
template <class A>
foreign await_twice(A a) {
  co_await std::move(a);
  co_await std::move(a);
}

template <class A>
foreign await_moved_from(A a) {
  A other = std::move(a);
  co_await std::move(a);
  co_await std::move(other);
}

}  // namespace support
