// thread_state.cpp - where what a thread does for the library is kept.

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

// Used by instructions that here() writes itself, which an optimiser of the whole program does not
// see: without being told it drops the one, and takes the other for a constant.
[[gnu::used]] constinit thread_local thread_state this_thread_state;
[[gnu::used]] moment any_call_may_change_this{};

constinit keeper keeps_nothing;

// It touches memory, so that no optimiser joins two calls with a switch of fibers between them.
[[gnu::noinline]] thread_state& here_by_a_call() noexcept {
  asm volatile("" ::: "memory");
  return this_thread_state;
}

std::uint64_t first_number() noexcept {
  static constinit atomic<std::uint64_t> given{0};
  return here().number = given.fetch_add(1, relaxed) + 1;
}

}  // namespace turnstile::detail
