// or_shared.hpp - where something goes that nobody has said an executor for.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/thread_pool.hpp>

namespace turnstile::detail {

// Always inline: in test/schedule another pool is shared, as far as its callers do not lie beside
// it.
TURNSTILE_INLINE executor_ref or_shared(executor_ref e) noexcept {
  return e ? e : executor_ref(thread_pool::shared());
}

}  // namespace turnstile::detail
