// timer_thread.hpp - the library's thread for timers.
#pragma once

namespace turnstile::detail {

// Starts it if there is none yet. Throws std::system_error.
void make_timer_thread();

// It looks at the timers again. At the end of the process, when it is over, nothing.
void wake_timer_thread() noexcept;

// By the shared pool, before it ends: no timer is called any more, whether it was ever made or not.
// False: a call ends the process, and so must not be waited for.
bool end_timer_thread() noexcept;

}  // namespace turnstile::detail
