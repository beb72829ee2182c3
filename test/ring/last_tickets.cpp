// last_tickets.cpp - the order across the end of the tickets' 37 bits.

#include "ring/driven.hpp"

#include <cstdint>
#include <vector>

using namespace ring_test;
using turnstile::detail::atomic;
using turnstile::detail::ticket_word;

namespace {

using ticketed = driven<ticket_ring>;

std::vector<ticketed::visitor*> all_late(ticketed& ring, int n) {
  std::vector<ticketed::visitor*> all;
  for (int i = 0; i != n; ++i) all.push_back(&ring.late());
  return all;
}

}  // namespace

TEST_SUITE("ring") {
  TEST_CASE("last tickets: the count starts again at 0, and the order goes on") {
    for (const std::size_t cells : {1, 2, 8, 64}) {
      CAPTURE(cells);
      ticketed ring(cells);
      auto& first = ring.owner();
      CHECK(ticket_word::ticket_of(first.place) == atomic<std::uint64_t>::first_ticket);
      auto asked = all_late(ring, 8);
      CHECK(ticket_word::ticket_of(asked.back()->place) == 4);
      for (auto v = asked.rbegin(); v != asked.rend(); ++v) {
        REQUIRE(ring.publish(**v) == after_publish::nothing);
      }
      REQUIRE_FALSE(ring.leave(first));
      CHECK(ring.next() == asked.front());
      for (std::size_t i = 1; i != asked.size(); ++i) CHECK(ring.finish_and_next() == asked[i]);
      CHECK(ring.finish_and_next() == nullptr);
      CHECK(ring.idle());
    }
  }

  TEST_CASE("last tickets: a gap there is waited for like any other") {
    for (const std::size_t cells : {1, 2, 8}) {
      CAPTURE(cells);
      ticketed ring(cells);
      ring.begin(ring.owner());
      const auto asked = all_late(ring, 10);
      ring.finish();
      for (auto* const v : asked) {
        REQUIRE(ring.next() == nullptr);
        REQUIRE(ring.publish(*v) == after_publish::take_over);
        REQUIRE(ring.next() == v);
        ring.finish();
      }
      CHECK(ring.next() == nullptr);
      CHECK(ring.idle());
    }
  }

  TEST_CASE("last tickets: the first after the end leaves the ring idle") {
    ticketed ring;
    for (int i = 0; i != 4; ++i) REQUIRE(ring.leave(ring.owner()));
    auto& first = ring.owner();
    CHECK(ticket_word::ticket_of(first.place) == 0);
    CHECK(ring.pending() == 1);
    CHECK(ring.leave(first));
    CHECK(ring.idle());
  }
}
