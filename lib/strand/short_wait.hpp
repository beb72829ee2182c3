// short_wait.hpp - waiting in place for one short body, instead of suspended: how long a thread is
// away.
#pragma once

#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

// By a thread that has met others and has left a section: its next arrival is looked at.
void time_absence(thread_state& t) noexcept;

}  // namespace turnstile::detail
