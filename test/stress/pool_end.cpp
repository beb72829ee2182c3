// pool_end.cpp - pools whose end comes while their workers go to sleep, on atomics with delays.
//
// A worker that nobody wakes any more shows as a test that does not end.

#include "stress/delays.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>

using namespace turnstile;
using stress::dice;

namespace {

task<> two_steps(std::atomic<int>& done) {
  co_await yield();
  done.fetch_add(1);
}

// The end is met at any stage of falling asleep.
void one_life(dice& d) {
  std::atomic<int> done{0};
  const int jobs = static_cast<int>(d.below(3));
  {
    thread_pool pool(1 + d.below(5));
    async_scope scope({.executor = pool});
    for (int i = 0; i != jobs; ++i) scope.spawn(two_steps(done));
    for (unsigned n = d.below(2000); n != 0; --n) detail::pause();
    sync_wait(scope.join());
  }
  REQUIRE(done == jobs);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("pool: destroyed while its workers go to sleep") {
    stress::use({.rough = 16, .one_claim_in = 0});
    stress::length_of_run length(stress::sanitized ? 500 : 2000);
    for (dice d(1); length.goes_on();) one_life(d);
  }
}
