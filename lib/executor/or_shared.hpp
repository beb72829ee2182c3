// or_shared.hpp - where something goes that nobody has said an executor for.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/thread_pool.hpp>

namespace turnstile::detail {

// Always inline: in test/schedule another pool is shared, as far as its callers do not lie beside
// it.
TURNSTILE_INLINE executor_ref or_shared(executor_ref e) noexcept {
  return e ? e : executor_ref(thread_pool::shared());
}

// What this thread passes on goes on at its own executor, if it may go on `here_too`, or at `home`;
// but a thread that is about to block leaves its own one out, for it may be the last one there.
TURNSTILE_INLINE executor_ref here_or_home(executor_ref home, bool here_too) noexcept {
  const thread_state& t = here();
  const bool may_block = t.bounce != nullptr && t.bounce->thread_may_block();
  if (t.runs_on && !may_block && here_too) return t.runs_on;
  return or_shared(may_block && home == t.runs_on ? executor_ref() : home);
}

}  // namespace turnstile::detail
