// execute_awaiter.hpp - what co_await section.execute(body) does.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/execution.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <coroutine>
#include <source_location>
#include <utility>

namespace turnstile::detail {

template <class Body>
class [[nodiscard("nothing runs until the result is awaited")]] execute_awaiter
    : private execution<Body> {
  using base = execution<Body>;

 public:
  template <class B>
  execute_awaiter(section_core& section, B&& body, const execute_options& options,
                  const std::source_location& where)
      : base(section, std::forward<B>(body), options, where) {}
  execute_awaiter(execute_awaiter&&) = default;

  TURNSTILE_INLINE bool await_ready() {
    thread_state& t = here();
    bool turn_ended = false;
    const auto then = this->run_if_idle(t, turn_ended);
    if (then == base::phase::waiting || then == base::phase::left_more) return false;
    if (turn_is_over(turn_ended)) [[unlikely]] {
      this->goes_on_later();
      return false;
    }
    this->phase_ = then;
    return true;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    if (this->phase_ >= base::phase::left_more) [[unlikely]]
      return (this->phase_ == base::phase::served || turn_is_over()) && this->give_turn(h);
    this->suspend_here(h);
    switch (this->wait_for_turn()) {
      case base::line_entry::waits: return true;
      case base::line_entry::is_served: return this->stay_here(h);
      case base::line_entry::withdrawn: break;
    }
    return false;
  }

  typename base::value await_resume() { return this->take(); }
  TURNSTILE_INLINE typename base::value await_resume(was_ready) { return this->take_value(); }
};

}  // namespace turnstile::detail
