// threads.hpp - the seam for what else a checker has to control: threads, locks and the clock.
//
// As in atomic.hpp, TURNSTILE_THREAD_SEAM names a header that declares the same names.
#pragma once

#if defined(TURNSTILE_THREAD_SEAM)
#include TURNSTILE_THREAD_SEAM
#else

#include <chrono>
#include <mutex>
#include <thread>

namespace turnstile::detail {

using std::mutex;
using std::thread;
using std::chrono::steady_clock;
using std::this_thread::sleep_for;

// `full`, or `small` for a checker, which has to reach the end of a queue or of a turn in few steps.
template <class T>
constexpr T limit(T full, [[maybe_unused]] T small) noexcept {
  return full;
}

}  // namespace turnstile::detail

#endif
