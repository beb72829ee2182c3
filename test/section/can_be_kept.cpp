// can_be_kept.cpp - whether a section can stay with a thread, asked of the kernel itself.
//
// The other tests believe support::can_be_kept, which is the library's own answer: were that always
// no, nothing would be kept, and all of them would hold. The thread sanitizer does without the
// kernel, other rings keep nothing.

#include "support/keeping.hpp"

#if defined(__linux__) && __has_include(<linux/membarrier.h>) && \
    !defined(TURNSTILE_THREAD_SANITIZER) && !defined(TURNSTILE_RING_INBOX) && \
    !defined(TURNSTILE_RING_CYCLE)

#include <cerrno>
#include <cstring>
#include <doctest/doctest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

TEST_SUITE("section") {
  TEST_CASE("keeping: sections can be kept wherever the kernel reaches all threads") {
    const long commands = ::syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0);
    if (commands < 0) {
      MESSAGE("what the kernel can do is not known: ", std::strerror(errno));
      return;
    }
    CHECK(support::can_be_kept() == ((commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0));
  }
}

#endif
