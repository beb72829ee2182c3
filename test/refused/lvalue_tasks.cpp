// lvalue_tasks.cpp - a vector of tasks that is awaited as an lvalue.
//
// Refused   what is in it cannot be copied: when_a
// Ways      4
#include <turnstile/task.hpp>
#include <turnstile/when_all.hpp>
#include <turnstile/when_any.hpp>

#include <coroutine>
#include <span>
#include <utility>
#include <vector>

#if !defined(REFUSED)
#define REFUSED 0
#endif

using tasks = std::vector<turnstile::task<int>>;

template <int way, class Tasks>
decltype(auto) given(Tasks& all) {
  if constexpr (way == REFUSED) {
    return (all);
  } else {
    return tasks(std::move(all));
  }
}

turnstile::task<> ask(tasks a, tasks b) {
  co_await turnstile::when_all(given<1>(a));
  co_await turnstile::when_any(given<2>(b));
}

#if REFUSED == 3
auto ask(const tasks& all) { return turnstile::when_all(all); }
#elif REFUSED == 4
auto ask(const tasks& all) { return turnstile::when_any(all); }
#endif

// As what cannot be awaited, for those who ask.
template <class Range>
concept taken = requires(Range r) {
  turnstile::when_all(static_cast<Range&&>(r));
  turnstile::when_any(static_cast<Range&&>(r));
};
static_assert(taken<tasks>);
static_assert(!taken<tasks&>);
static_assert(taken<std::span<turnstile::task<int>>&>);
static_assert(taken<std::vector<std::suspend_never>&>);
