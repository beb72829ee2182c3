// foreign_awaiter.cpp - an awaitable that only a coroutine of its own library can await.
//
// Refused   what is awaited can only be awaited by coroutines of its own library
#include <turnstile/task.hpp>

#include <coroutine>

struct promise_of_another_library;

struct awaitable {
#if defined(REFUSED)
  using handle = std::coroutine_handle<promise_of_another_library>;
#else
  using handle = std::coroutine_handle<>;
#endif
  bool await_ready() const noexcept { return false; }
  void await_suspend(handle) const noexcept {}
  void await_resume() const noexcept {}
};

turnstile::task<> ask() { co_await awaitable(); }
