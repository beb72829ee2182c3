// fences.cpp - the heavy one of a pair of fences: the kernel puts a fence into every other thread.
//
// Source  asymmetric fences through membarrier(2): the userspace RCU library;
//         std::asymmetric_thread_fence (P1202)

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/threads.hpp>

#if !defined(TURNSTILE_THREAD_SANITIZER) && !defined(TURNSTILE_THREAD_SEAM)

#if defined(__linux__) && __has_include(<linux/membarrier.h>)
#include <cerrno>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>
#define TURNSTILE_HAS_MEMBARRIER 1
#else
#define TURNSTILE_HAS_MEMBARRIER 0
#endif

namespace turnstile::detail {

namespace {

#if TURNSTILE_HAS_MEMBARRIER
bool announce() noexcept {
  return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}
// For want of memory it is tried again. What it has announced the kernel refuses no more, unless it
// was told to meanwhile, by a filter: and then bodies could overlap.
void reach_all() noexcept {
  while (::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
    if (errno != ENOMEM) {
      contract_break("", "membarrier(2) is refused, which was allowed when the program began", {});
    }
  }
}
#else
bool announce() noexcept { return false; }
void reach_all() noexcept {}
#endif

}  // namespace

// Until this is initialised, fences are real ones, which is always enough.
const bool heavy_reaches_all = announce();

void heavy_fence() noexcept {
  if (heavy_reaches_all) reach_all();
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

}  // namespace turnstile::detail

#endif
