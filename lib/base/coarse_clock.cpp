// coarse_clock.cpp - the steady clock as the kernel last wrote it down, at its tick.

#include <turnstile/detail/threads.hpp>

#if !defined(TURNSTILE_THREAD_SEAM)

#include <ctime>

namespace turnstile::detail {

#if defined(CLOCK_MONOTONIC_COARSE)
steady_clock::time_point coarse_now() noexcept {
  std::timespec t{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
  return steady_clock::time_point(std::chrono::seconds(t.tv_sec) +
                                  std::chrono::nanoseconds(t.tv_nsec));
}
#else
steady_clock::time_point coarse_now() noexcept { return steady_clock::now(); }
#endif

}  // namespace turnstile::detail

#endif
