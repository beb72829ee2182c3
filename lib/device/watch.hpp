// watch.hpp - the thread that looks at devices when nobody else does.
#pragma once

namespace turnstile::detail {

// Starts the thread, and the shared pool before it; without one, only workers look. To be called
// under no lock of a lane's before the first wake_watch there: if the pool cannot start all of its
// threads, it waits for the others, which may look already, and want that lock.
void start_watch() noexcept;

// Something is pending now: it looks from now on, if it did not. At the end of the process, when it
// is over, nothing.
void wake_watch() noexcept;

}  // namespace turnstile::detail
