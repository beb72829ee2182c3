// lvalue_task.cpp - a task that is awaited as an lvalue.
//
// Refused   a task is awaited as an rvalue: co_await std::move(t)
#include <turnstile/task.hpp>

#include <utility>

turnstile::task<int> ask(turnstile::task<int> t) {
#if defined(REFUSED)
  co_return co_await t;
#else
  co_return co_await std::move(t);
#endif
}

// As what cannot be awaited, for those who ask.
static_assert(turnstile::detail::awaitable<turnstile::task<int>>);
static_assert(!turnstile::detail::awaitable<turnstile::task<int>&>);
