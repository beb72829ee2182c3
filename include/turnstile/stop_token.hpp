// stop_token.hpp - whether what surrounds a coroutine wants it to stop.
//
// Behind it: detail/chain.hpp.
#pragma once

#include <turnstile/detail/thread_state.hpp>

#include <coroutine>
#include <stop_token>

namespace turnstile {
namespace detail {

class [[nodiscard("the token is what co_await gives")]] stop_token_awaiter {
 public:
  bool await_ready() const noexcept { return true; }
  void await_suspend(std::coroutine_handle<>) const noexcept {}
  std::stop_token await_resume() const noexcept { return ask_for_surrounding_stop(here().chain); }
};

}  // namespace detail

/// `co_await current_stop_token()` gives the token of the innermost when_any, timeout or
/// async_scope around; one that never stops if there is none. For a running computation that should
/// look at it now and then: what waits in the library is withdrawn without it. Another library's
/// coroutine that has been resumed by this one gets the token, but an async_scope does not become
/// stoppable by that.
///
/// Resumes    at once
/// Lifetime   the token may be kept: after the end of that when_any, timeout or scope it says
///            whether a stop was requested before
inline detail::stop_token_awaiter current_stop_token() noexcept { return {}; }

}  // namespace turnstile
