// spawned_function.cpp - a function given to a scope, in place of what it returns.
//
// Refused   spawn takes what can be awaited: call the lambda
#include <turnstile/async_scope.hpp>
#include <turnstile/task.hpp>

void start(turnstile::async_scope& scope) {
  const auto work = []() -> turnstile::task<> { co_return; };
#if defined(REFUSED)
  scope.spawn(work);
#else
  scope.spawn(work());
#endif
}

// As what cannot be spawned, for those who ask.
template <class T>
concept spawnable = requires(turnstile::async_scope& s, T t) { s.spawn(static_cast<T&&>(t)); };
static_assert(spawnable<turnstile::task<>>);
static_assert(!spawnable<turnstile::task<>&>);
static_assert(!spawnable<turnstile::task<> (*)()>);
