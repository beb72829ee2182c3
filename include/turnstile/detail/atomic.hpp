// atomic.hpp - the one seam through which all atomics of the library go.
//
// A checker that drives the real code (test/schedule) defines TURNSTILE_ATOMIC_SEAM as the name of
// a header that declares the same names: atomic<T>, guarded<T>, statistic<T>, pause and the memory
// orders. Nothing else in include/ or lib/ uses the standard atomics, but for threads, locks and
// fences, which have a seam of their own (threads.hpp), and the word of two (double_word.hpp),
// which the checker does not see.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(TURNSTILE_ATOMIC_SEAM)
#include TURNSTILE_ATOMIC_SEAM
#else

#include <turnstile/detail/config.hpp>

#include <atomic>

namespace turnstile::detail {

template <class T>
using atomic = std::atomic<T>;

// A field that is not atomic although several threads touch it, one after the other. The checker
// puts a race detector here; in the real build it is the type itself.
template <class T>
using guarded = T;

// A number that is only ever read to be shown: relaxed throughout, it orders nothing, and what a
// thread does next never depends on it.
template <class T>
using statistic = std::atomic<T>;

using enum std::memory_order;

// Tells the core that this thread is waiting for another one's store.
inline void pause() noexcept { spin_hint(); }

}  // namespace turnstile::detail

#endif

namespace turnstile::detail {

// By the only thread that changes it now. Of a load and a store g++ makes three instructions.
inline void add_one(statistic<std::uint64_t>& n) noexcept {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(TURNSTILE_ATOMIC_SEAM) && \
    !defined(TURNSTILE_THREAD_SANITIZER) && !defined(TURNSTILE_ADDRESS_SANITIZER)
  asm("incq %0" : "+m"(n) : : "cc");
#else
  n.store(n.load(relaxed) + 1, relaxed);
#endif
}

// A high-water mark. Relaxed: it orders nothing.
template <class T>
void raise_to(statistic<T>& most, std::type_identity_t<T> n) noexcept {
  T seen = most.load(relaxed);
  while (seen < n && !most.compare_exchange_weak(seen, n, relaxed, relaxed)) {
  }
}

}  // namespace turnstile::detail
