// stoppable.hpp - the place below a when_any or a timeout, by hand.
#pragma once

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <stop_token>
#include <utility>

namespace support {

// While it lives, waits that this thread begins, and those of coroutines that are begun on it, end
// when the token is stopped.
class stoppable {
 public:
  explicit stoppable(std::stop_token token)
      : token_(std::move(token)),
        frame_(turnstile::detail::stop_on(turnstile::detail::here().chain, token_, &at_)),
        below_(&frame_) {}
  ~stoppable() { turnstile::detail::end_frame(frame_); }
  stoppable(const stoppable&) = delete;
  stoppable& operator=(const stoppable&) = delete;

 private:
  std::stop_token token_;
  turnstile::detail::site at_;
  turnstile::detail::stop_frame frame_;
  turnstile::detail::chain_scope below_;
};

}  // namespace support
