// awaitable.hpp - what can be awaited, and what comes out of it.
#pragma once

#include <turnstile/detail/config.hpp>

#include <concepts>
#include <utility>

namespace turnstile::detail {

// Says to await_resume that await_ready said yes, to those of ours that have less to do then.
struct was_ready {};

template <class T>
concept has_member_co_await = requires(T&& t) { std::forward<T>(t).operator co_await(); };
template <class T>
concept has_free_co_await = requires(T&& t) { operator co_await(std::forward<T>(t)); };

template <class T>
decltype(auto) get_awaiter(T&& t) {
  if constexpr (has_member_co_await<T>) {
    return std::forward<T>(t).operator co_await();
  } else if constexpr (has_free_co_await<T>) {
    return operator co_await(std::forward<T>(t));
  } else {
    return static_cast<T&&>(t);
  }
}

template <class T>
using awaiter_of = decltype(detail::get_awaiter(std::declval<T>()));

template <class T>
concept awaitable = requires(awaiter_of<T>& a) {
  requires std::constructible_from<bool, decltype(a.await_ready())>;
  a.await_resume();
};

// What co_await gives.
template <awaitable T>
using awaited = decltype(std::declval<awaiter_of<T>&>().await_resume());

}  // namespace turnstile::detail
