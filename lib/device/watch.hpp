// watch.hpp - the thread that looks at devices when nobody else does.
#pragma once

namespace turnstile::detail {

// Starts the shared pool, and then the thread. If that fails, only workers look. To be called under
// no lock of a lane's, before the first wake_watch: a pool that cannot start all of its threads
// waits for those that it has started, which may be looking already, and want that lock.
void start_watch() noexcept;

// Something is pending now: it looks from now on, if it did not. At the end of the process, when it
// is over, nothing.
void wake_watch() noexcept;

}  // namespace turnstile::detail
