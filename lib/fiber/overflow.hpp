// overflow.hpp - saying that a fiber's stack was too small, instead of a mere segmentation fault.
//
// The first fiber of the process installs a handler of SIGSEGV, if nobody has one, and each thread that
// runs fibers gets a small stack for it. A fault in the guard page below a fiber's stack prints one line
// with the fiber's name, its size and where it was spawned; then, as with any other fault, the process
// ends the way it would have without the handler. Sanitizers report overflows themselves.
#pragma once

#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

void watch_this_thread() noexcept;

// Before this thread enters a fiber's stack.
inline void watch_for_overflow() noexcept {
  if (!here().watches_stacks) [[unlikely]]
    watch_this_thread();
}

// Of a stack without a guard, once it has been left: prints the line and aborts.
[[noreturn]] void report_overflow(const fiber_core& f) noexcept;

}  // namespace turnstile::detail
