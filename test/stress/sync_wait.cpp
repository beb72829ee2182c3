// sync_wait.cpp - many plain threads that block for one section.
//
// A wake-up that is lost shows as a test that does not end.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

task<int> next_number(critical_section& cs, int& last) {
  auto guard = co_await cs.lock();
  co_return ++last;
}

void many_threads(section_options options, int threads, int each) {
  critical_section cs(options);
  int last = 0;
  std::vector<int> backwards(static_cast<std::size_t>(threads), 0);
  stress::together(threads, [&](int t) {
    dice d(static_cast<std::uint32_t>(t));
    auto body = [&last] { return ++last; };
    int before = 0;
    for (int i = 0; i != each; ++i) {
      const int now = d.one_in(4) ? sync_wait(next_number(cs, last)) : sync_wait(cs.execute(body));
      if (now <= before) ++backwards[static_cast<std::size_t>(t)];
      before = now;
    }
  });
  CHECK(last == threads * each);
  CHECK(backwards == std::vector<int>(static_cast<std::size_t>(threads), 0));
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("sync_wait: from many threads on one section") {
    const int each = stress::times_scale(stress::sanitized ? 1000 : 10000);
    for (const int threads : {2, 3, 8}) many_threads({}, threads, each);
  }

  TEST_CASE("sync_wait: from many threads on a section that lives on a pool") {
    const int each = stress::times_scale(stress::sanitized ? 500 : 2000);
    thread_pool pool(2);
    for (const int threads : {2, 8}) many_threads({.executor = pool}, threads, each);
  }
}
