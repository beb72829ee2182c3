// config.hpp - what differs between compilers, in one place.
#pragma once

#if !defined(__cpp_impl_coroutine) || __cplusplus < 202002L
#error "turnstile needs C++20 with coroutines: g++ 12 or clang 19, or later, with -std=c++20"
#endif

#include <cstddef>
#include <version>

#if !defined(__cpp_lib_source_location)
#error "turnstile needs a standard library with <source_location>, such as that of g++ 12"
#endif

// g++ makes a symmetric transfer a tail call only when it optimises, and not under a sanitizer.
// Elsewhere the transfer goes through the loop that resumed the coroutine, so that no chain grows
// the stack. Nothing tells -Og, -O1 and -fno-optimize-sibling-calls, where there are no tail calls
// either: who compiles so defines this as 0, as Meson does. Which files have to agree:
// include/README.md, Compilers.
#ifndef TURNSTILE_TAIL_TRANSFER
#if defined(__clang__) || \
    (defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__))
#define TURNSTILE_TAIL_TRANSFER 1
#else
#define TURNSTILE_TAIL_TRANSFER 0
#endif
#endif

// g++ before 13 destroys the by-value captures of a lambda written inside co_await twice.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ < 13
#define TURNSTILE_CO_AWAIT_COPIES_CLOSURES 1
#else
#define TURNSTILE_CO_AWAIT_COPIES_CLOSURES 0
#endif

#if defined(__SANITIZE_THREAD__)
#define TURNSTILE_THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TURNSTILE_THREAD_SANITIZER
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define TURNSTILE_ADDRESS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TURNSTILE_ADDRESS_SANITIZER
#endif
#endif

#if defined(__GNUC__)
#define TURNSTILE_COLD [[gnu::cold, gnu::noinline]]
// Where nothing is optimised a copy for each body would only take the compiler longer.
#if defined(__OPTIMIZE__)
#define TURNSTILE_INLINE [[gnu::always_inline]] inline
#else
#define TURNSTILE_INLINE inline
#endif
// What is told by an address that a program and a shared library have to agree on, as which
// executor somebody refers to, also if the program hides what it defines (-fvisibility=hidden).
#define TURNSTILE_VISIBLE [[gnu::visibility("default")]]
#else
#define TURNSTILE_COLD
#define TURNSTILE_INLINE inline
#define TURNSTILE_VISIBLE
#endif

namespace turnstile::detail {

// Our own constant: the standard one draws a warning in headers under g++ 12, because it changes
// with tuning flags and so would the layout of a section.
inline constexpr std::size_t cache_line = 64;

// Tells the core that nothing but another one's store ends this loop.
inline void spin_hint() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Tells the core that this line is about to be changed, so that it comes over once: not to be read,
// and then again to be written. Where a compiler says it by itself, it has to be told that the
// machine can.
inline void prefetch_to_write(const void* p) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" ::"m"(*static_cast<const char*>(p)));
#else
  __builtin_prefetch(p, 1);
#endif
}
// The same of a request and a small body behind it: what whoever serves it looks at
// (section_request.hpp), and then who waits. What else lies there only changes its core.
inline void prefetch_request(const void* p) noexcept {
  constexpr std::size_t lines = 3;
  for (std::size_t i = 0; i != lines; ++i) {
    prefetch_to_write(static_cast<const char*>(p) + i * cache_line);
  }
}

}  // namespace turnstile::detail
