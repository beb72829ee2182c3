// short_wait.cpp - coroutines on several workers that do something else between two short bodies,
// so that they wait for each other in place, among some with long bodies and some that ask again at
// once.
//
// The data is plain variables: two bodies at once would leave them wrong, and the thread sanitizer
// would see it.

#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <vector>

using namespace turnstile;
using stress::dice;
using stress::sanitized;
using stress::times_scale;

namespace {

struct shared {
  explicit shared(std::size_t clients) : last_of(clients) {}

  void visit(std::size_t who, std::uint64_t nth) noexcept {
    ++first;
    if (first != second + 1 || last_of[who] + 1 != nth) ++wrong;
    last_of[who] = nth;
    ++second;
  }

  critical_section cs;
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::vector<std::uint64_t> last_of;
  int wrong = 0;
};

void spend(unsigned steps) noexcept {
  for (; steps != 0; --steps) detail::pause();
}

task<> visit_and_work(shared& all, std::uint32_t who, std::uint64_t visits) {
  dice d(who);
  for (std::uint64_t nth = 1; nth <= visits; ++nth) {
    const unsigned inside = d.one_in(200) ? d.below(200) : 0;
    co_await all.cs.execute([&] {
      all.visit(who, nth);
      spend(inside);
    });
    if (!d.one_in(16)) spend(d.below(40));
  }
}

}  // namespace

TEST_SUITE("stress: short wait") {
  TEST_CASE("bodies run one at a time, and in the order in which each coroutine asked") {
    constexpr std::uint32_t clients = 24;
    const auto visits = static_cast<std::uint64_t>(times_scale(sanitized ? 100 : 400));
    for (const unsigned workers : {2u, 3u, 8u}) {
      thread_pool pool(workers);
      async_scope scope{{.executor = pool}};
      shared all(clients);
      for (std::uint32_t who = 0; who != clients; ++who) {
        scope.spawn(visit_and_work(all, who, visits));
      }
      sync_wait(scope.join());
      CHECK(all.wrong == 0);
      CHECK(all.second == clients * visits);
    }
  }
}
