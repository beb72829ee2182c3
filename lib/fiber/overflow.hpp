// overflow.hpp - saying that a fiber's stack was too small, instead of a mere segmentation fault.
//
// The first fiber of the process installs a handler of SIGSEGV, if nobody has one, and each thread
// that runs fibers gets a small stack for it. A fault in the guard below a fiber's stack prints one
// line with the fiber's name, its size and where it was spawned; then, as with any other fault, the
// process ends the way it would have without the handler. Sanitizers report overflows themselves.
#pragma once

#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

// Before a thread enters a fiber's stack for the first time.
void watch_this_thread() noexcept;

// Of a stack without a guard, once it has been left: prints the line and aborts.
[[noreturn]] void report_overflow(const fiber_core& f) noexcept;

}  // namespace turnstile::detail
