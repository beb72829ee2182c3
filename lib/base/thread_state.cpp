// thread_state.cpp - where what a thread does for the library is kept.

#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

constinit thread_local thread_state this_thread_state;
moment any_call_may_change_this{};

constinit keeper keeps_nothing;

[[gnu::noinline]] thread_state& here_by_a_call() noexcept { return this_thread_state; }

}  // namespace turnstile::detail
