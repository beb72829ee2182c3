// lvalue_task_elsewhere.cpp - a task that another library's coroutine awaits as an lvalue.
//
// Refused   a task is awaited as an rvalue: co_await std::move(t)
#include <turnstile/task.hpp>

#include <coroutine>
#include <utility>

struct coroutine {
  struct promise_type {
    coroutine get_return_object() { return {}; }
    std::suspend_never initial_suspend() { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
};

coroutine ask(turnstile::task<> t) {
#if defined(REFUSED)
  co_await t;
#else
  co_await std::move(t);
#endif
}
