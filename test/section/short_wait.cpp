// short_wait.cpp - a thread that meets others waits a little in place before it suspends.

#include "support/hold.hpp"
#include "support/keeping.hpp"
#include "support/loop.hpp"

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>

using namespace turnstile;
using support::hold;
using support::loop;
using support::never_kept;  // in a section that is kept there is nobody to meet

namespace {

bool is_measured() { return detail::here().contended != 0; }

void execute_for_turns(critical_section& cs, unsigned turns) {
  for (unsigned i = 0; i != turns * detail::bodies_in_a_turn; ++i) cs.execute_blocking([] {});
}

// Is queued behind a guard on the calling thread, whose turn then comes.
void meet_somebody(critical_section& cs) {
  loop here;
  async_scope scope{{.executor = here}};
  section_guard other = hold(cs);
  bool ran = false;
  scope.spawn([](critical_section& s, bool& r) -> task<> {
    co_await s.execute([&r] { r = true; });
  }(cs, ran));
  here.run();
  REQUIRE_FALSE(ran);
  REQUIRE(cs.statistics().waiters == 1);
  other.unlock();
  here.run();
  REQUIRE(ran);
  sync_wait(scope.join());
}

// Works longer between two bodies than any lines take to come over, for a few times that are
// measured.
void be_away_for_long(critical_section& cs) {
  for (unsigned i = 0; i != 2 * detail::bodies_in_a_turn; ++i) {
    for (int n = 0; n != 100; ++n) detail::pause();
    cs.execute_blocking([] {});
  }
}

}  // namespace

TEST_SUITE("short wait") {
  TEST_CASE("how long a thread is away is measured until it has met nobody for some turns") {
    if (!detail::section_ring::can_be_kept) return;  // other rings do not count turns
    const never_kept off;
    critical_section cs;
    execute_for_turns(cs, detail::turns_after_contention + 1);
    CHECK_FALSE(is_measured());
    meet_somebody(cs);
    CHECK(is_measured());
    execute_for_turns(cs, detail::turns_after_contention - 1);
    CHECK(is_measured());
    execute_for_turns(cs, 2);
    CHECK_FALSE(is_measured());
  }

  TEST_CASE("the wait has an end, and then the request is queued as any other, time after time") {
    const never_kept off;
    critical_section cs;
    meet_somebody(cs);
    for (int i = 0; i != 10; ++i) {
      be_away_for_long(cs);
      meet_somebody(cs);
    }
    CHECK(cs.statistics().waiters == 0);
  }

  TEST_CASE("a closed section refuses whoever would wait in place") {
    const never_kept off;
    critical_section cs;
    meet_somebody(cs);
    be_away_for_long(cs);
    sync_wait(cs.close());
    CHECK_THROWS_AS(cs.execute_blocking([] {}), section_closed);
  }
}
