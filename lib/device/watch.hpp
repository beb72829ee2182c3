// watch.hpp - the thread that looks at devices when nobody else does.
#pragma once

namespace turnstile::detail {

// Something is pending now: it looks from now on, if it did not. Starts the thread at first;
// without one, only workers look. At the end of the process, when it is over, nothing.
void wake_watch() noexcept;

}  // namespace turnstile::detail
