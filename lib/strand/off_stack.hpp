// off_stack.hpp - what runs others' code, where a thread may be on a fiber's stack.
#pragma once

#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

// A fiber's stack is for the fiber's own code: on the thread's own, then.
template <class F>
void off_this_stack(F f) noexcept {
  borrowed_stack* const s = here().stack;
  if (s == nullptr) return f();
  s->call_off(*s, [](void* with) noexcept { (*static_cast<F*>(with))(); }, &f);
}

}  // namespace turnstile::detail
