// execute_after.hpp - what co_await section.execute(after(a, b), body) does.
#pragma once

#include <turnstile/after.hpp>
#include <turnstile/detail/applied_body.hpp>
#include <turnstile/detail/execute_awaiter.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/task.hpp>
#include <turnstile/when_all.hpp>

#include <coroutine>
#include <exception>
#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// What a dependency gives to the body: a tuple of at most one reference. `got` is what when_all gave.
template <bool as_rvalue, class A, class T>
auto argument(T& got) noexcept {
  using value = awaited<A>;
  if constexpr (std::is_void_v<value>) {
    return std::tuple<>{};
  } else if constexpr (std::is_lvalue_reference_v<value> || !as_rvalue) {
    return std::tuple<T&>(got);
  } else {
    return std::tuple<T&&>(std::move(got));
  }
}

template <bool as_rvalues, class... A, class... T>
auto arguments(std::tuple<T...>& got) noexcept {
  return std::apply([](auto&... one) { return std::tuple_cat(argument<as_rvalues, A>(one)...); },
                    got);
}

template <class... A>
using all_values = decltype(std::declval<all_of<A...>&>().await_resume());

template <class Body, class Args>
inline constexpr bool callable_with = false;
template <class Body, class... Args>
inline constexpr bool callable_with<Body, std::tuple<Args...>> =
    std::is_invocable_v<std::decay_t<Body>&, Args...>;

template <bool as_rvalues, class Data, class... A>
using after_arguments = decltype(std::tuple_cat(
    std::declval<Data>(), arguments<as_rvalues, A...>(std::declval<all_values<A...>&>())));

// How the body is called: with rvalues if it can be.
template <class Body, class Data, class... A>
inline constexpr bool with_rvalues = callable_with<Body, after_arguments<true, Data, A...>>;

template <class Body, class Data, class... A>
using call_after =
    body_applied_to_t<Body, after_arguments<with_rvalues<Body, Data, A...>, Data, A...>>;

// Goes on where an executor says; at once if that is here.
class come_back : private suspended<job> {
 public:
  explicit come_back(executor_ref to) noexcept : to_(to) {}
  bool await_ready() const noexcept { return !to_ || to_ == here().runs_on; }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) noexcept {
    suspend(h, to_);
    to_.post(*this);  // this may be gone
  }
  void await_resume() const noexcept {}

 private:
  executor_ref to_;
};

// The dependencies may end anywhere. The request is made there, without a detour, but its awaiter
// comes back to where it was, as from any other execution.
template <class Body, class Data, class... A>
task<body_result_t<call_after<Body, Data, A...>>> execute_after(section_core& section,
                                                                std::tuple<A...> all, Body body,
                                                                Data data, execute_options options,
                                                                kept_token stop,
                                                                std::source_location where) {
  using call = call_after<Body, Data, A...>;
  const executor_ref home = options.resume_on ? options.resume_on : here().runs_on;
  std::exception_ptr error;
  try {
    auto values = co_await std::apply([](A&... a) { return when_all(std::forward<A>(a)...); }, all);
    if (home != here().runs_on) options.resume_on = home;
    const std::stop_token token = stop.get();
    if (options.stop.token() != nullptr) options.stop = token;
    co_return co_await execute_awaiter<call>(
        section,
        call(std::move(body),
             std::tuple_cat(data, arguments<with_rvalues<Body, Data, A...>, A...>(values))),
        options, where);
  } catch (...) {
    error = std::current_exception();
  }
  co_await come_back(home);
  std::rethrow_exception(error);
}

}  // namespace turnstile::detail
