// threads.hpp - the seam for what else a checker has to control: threads, locks and the clock.
//
// As in atomic.hpp, TURNSTILE_THREAD_SEAM names a header that declares the same names.
#pragma once

#if defined(TURNSTILE_THREAD_SEAM)
#include TURNSTILE_THREAD_SEAM
#else

#include <turnstile/detail/config.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <stop_token>
#include <thread>

namespace turnstile::detail {

using std::mutex;
using std::stop_callback;
using std::thread;
using std::chrono::steady_clock;
using std::this_thread::sleep_for;

// The steady clock's time as of a while ago: a quarter of what a look at that costs.
// lib/base/coarse_clock.cpp.
steady_clock::time_point coarse_now() noexcept;

// A pair for Dekker's question, where two threads each store and then look at what the other
// stores, and one of them often, the other hardly ever: with a light fence in one and a heavy one
// in the other, not both look too early. lib/base/fences.cpp.
#if defined(TURNSTILE_THREAD_SANITIZER)
// It does not know fences. Of two changes of one word, the second sees what came before the first.
inline constinit std::atomic<std::uint32_t> order_of_fences{0};
inline void light_fence() noexcept { order_of_fences.fetch_add(1, std::memory_order_acq_rel); }
inline void heavy_fence() noexcept { order_of_fences.fetch_add(1, std::memory_order_acq_rel); }
inline void lightest_fence() noexcept { light_fence(); }
inline bool light_fence_is_light() noexcept { return true; }  // so that this is looked at, too
#else
extern const bool heavy_reaches_all;  // else the light one has to be a real fence
// Where it is known that the heavy one reaches all.
TURNSTILE_INLINE void lightest_fence() noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst);
}
TURNSTILE_INLINE void light_fence() noexcept {
  if (heavy_reaches_all) [[likely]] {
    std::atomic_signal_fence(std::memory_order_seq_cst);
  } else {
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
}
void heavy_fence() noexcept;
inline bool light_fence_is_light() noexcept { return heavy_reaches_all; }
#endif

// `full`, or `small` for a checker, which has to reach the end of a queue or of a turn in few
// steps.
template <class T>
constexpr T limit(T full, [[maybe_unused]] T small) noexcept {
  return full;
}

}  // namespace turnstile::detail

#endif
