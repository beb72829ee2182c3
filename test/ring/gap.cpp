// gap.cpp - requests that are published late, or in another order than they arrived.

#include "ring/driven.hpp"

#include <algorithm>
#include <vector>

using namespace ring_test;

namespace {

using ticketed = driven<ticket_ring>;

// `n` that have their places in line.
template <class Ring>
std::vector<typename driven<Ring>::visitor*> all_late(driven<Ring>& ring, int n) {
  std::vector<typename driven<Ring>::visitor*> all;
  for (int i = 0; i != n; ++i) all.push_back(&ring.late());
  return all;
}

}  // namespace

TEST_SUITE("ring") {
  TEST_CASE_TEMPLATE("next: order of arrival, though everybody published in the opposite order",
                     Ring, RINGS_WITH_TICKETS) {
    for (const std::size_t cells : {1, 2, 8, 64}) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      ring.begin(ring.owner());
      auto asked = all_late(ring, 20);
      for (auto v = asked.rbegin(); v != asked.rend(); ++v) {
        REQUIRE(ring.publish(**v) == after_publish::nothing);
      }
      for (auto* const v : asked) CHECK(ring.finish_and_next() == v);
      CHECK(ring.finish_and_next() == nullptr);
    }
  }

  TEST_CASE_TEMPLATE("next: order of arrival, whatever order three published in", Ring,
                     RINGS_WITH_TICKETS) {
    for (const std::size_t cells : {1, 2, 8}) {
      CAPTURE(cells);
      std::vector<std::size_t> by{0, 1, 2};
      do {
        driven<Ring> ring(cells);
        ring.begin(ring.owner());
        const auto asked = all_late(ring, 3);
        for (const std::size_t i : by) REQUIRE(ring.publish(*asked[i]) == after_publish::nothing);
        for (auto* const v : asked) CHECK(ring.finish_and_next() == v);
        CHECK(ring.finish_and_next() == nullptr);
      } while (std::ranges::next_permutation(by).found);
    }
  }

  TEST_CASE_TEMPLATE("next: what comes late goes before what was collected already", Ring,
                     RINGS_WITH_TICKETS) {
    for (const std::size_t cells : {1, 2}) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      ring.begin(ring.owner());
      const auto asked = all_late(ring, 6);
      for (const std::size_t i : {0, 2, 4}) {
        REQUIRE(ring.publish(*asked[i]) == after_publish::nothing);
      }
      REQUIRE(ring.finish_and_next() == asked[0]);  // collects the others of its cell
      for (const std::size_t i : {5, 3, 1}) {
        REQUIRE(ring.publish(*asked[i]) == after_publish::nothing);
      }
      for (std::size_t i = 1; i != 6; ++i) CHECK(ring.finish_and_next() == asked[i]);
      CHECK(ring.finish_and_next() == nullptr);
    }
  }

  TEST_CASE("gap: the owner parks, and whoever was missing takes over and is next") {
    for (const std::size_t cells : {1, 2, 8, 64}) {
      CAPTURE(cells);
      ticketed ring(cells);
      auto& first = ring.owner();
      auto& late = ring.late();
      REQUIRE_FALSE(ring.leave(first));
      REQUIRE(ring.next() == nullptr);
      CHECK(ring.pending() == 1);
      REQUIRE(ring.publish(late) == after_publish::take_over);
      CHECK(ring.next() == &late);
      CHECK(ring.finish_and_next() == nullptr);
      CHECK(ring.idle());
    }
  }

  TEST_CASE("gap: nobody can arrive as the owner of a parked ring") {
    ticketed ring;
    ring.begin(ring.owner());
    auto& late = ring.late();
    REQUIRE(ring.finish_and_next() == nullptr);
    CHECK(ring.try_arrive(ring.visit()) == arrival::queued);
    auto& third = ring.queued();
    REQUIRE(ring.publish(late) == after_publish::take_over);
    CHECK(ring.next() == &late);
    CHECK(ring.finish_and_next() == &third);
    CHECK(ring.finish_and_next() == nullptr);
  }

  TEST_CASE("gap: what was finished before it is accounted for when the owner parks") {
    ticketed ring;
    ring.begin(ring.owner());
    auto& second = ring.queued();
    auto& late = ring.late();
    REQUIRE(ring.finish_and_next() == &second);
    REQUIRE(ring.finish_and_next() == nullptr);
    CHECK(ring.pending() == 1);
    REQUIRE(ring.publish(late) == after_publish::take_over);
    REQUIRE(ring.next() == &late);
    CHECK(ring.finish_and_next() == nullptr);
    CHECK(ring.idle());
  }

  TEST_CASE("gap: publishers in other cells leave a parked ring alone") {
    ticketed ring(8);
    ring.begin(ring.owner());
    auto& late = ring.late();
    REQUIRE(ring.finish_and_next() == nullptr);
    std::vector<ticketed::visitor*> others;
    for (int i = 0; i != 7; ++i) others.push_back(&ring.queued());  // publish says nothing
    REQUIRE(ring.publish(late) == after_publish::take_over);
    CHECK(ring.next() == &late);
    for (auto* const v : others) CHECK(ring.finish_and_next() == v);
    CHECK(ring.finish_and_next() == nullptr);
  }

  TEST_CASE("gap: a later publisher in the same cell takes over, and parks again") {
    for (const std::size_t cells : {1, 2, 8}) {
      CAPTURE(cells);
      ticketed ring(cells);
      ring.begin(ring.owner());
      const auto asked = all_late(ring, static_cast<int>(cells) + 1);
      auto& missing = *asked.front();
      auto& early = *asked.back();  // a lap later: the same cell
      REQUIRE(ring.finish_and_next() == nullptr);
      REQUIRE(ring.publish(early) == after_publish::take_over);
      REQUIRE(ring.next() == nullptr);
      CHECK(ring.pending() == asked.size());
      for (std::size_t i = 1; i + 1 < asked.size(); ++i) {
        REQUIRE(ring.publish(*asked[i]) == after_publish::nothing);
      }
      REQUIRE(ring.publish(missing) == after_publish::take_over);
      CHECK(ring.next() == &missing);
      for (std::size_t i = 1; i != asked.size(); ++i) CHECK(ring.finish_and_next() == asked[i]);
      CHECK(ring.finish_and_next() == nullptr);
      CHECK(ring.idle());
    }
  }

  TEST_CASE("gap: everybody behind it in its cell takes over once, and the order stays") {
    ticketed ring(1);
    ring.begin(ring.owner());
    auto& missing = ring.late();
    REQUIRE(ring.finish_and_next() == nullptr);
    std::vector<ticketed::visitor*> early;
    for (int i = 0; i != 200; ++i) {
      auto& v = ring.late();
      early.push_back(&v);
      REQUIRE(ring.publish(v) == after_publish::take_over);
      REQUIRE(ring.next() == nullptr);
    }
    REQUIRE(ring.publish(missing) == after_publish::take_over);
    CHECK(ring.next() == &missing);
    for (auto* const v : early) CHECK(ring.finish_and_next() == v);
    CHECK(ring.finish_and_next() == nullptr);
  }

  TEST_CASE("gap: one after the other, each is waited for") {
    for (const std::size_t cells : {1, 2, 8}) {
      CAPTURE(cells);
      ticketed ring(cells);
      ring.begin(ring.owner());
      const auto asked = all_late(ring, 40);
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

  TEST_CASE("inbox: there is no gap: who arrived late finds the ring idle and takes over") {
    driven<inbox_ring> ring;
    auto& first = ring.owner();
    auto& late = ring.late();
    REQUIRE(ring.leave(first));
    auto& third = ring.owner();
    REQUIRE(ring.leave(third));
    REQUIRE(ring.publish(late) == after_publish::take_over);
    CHECK(ring.next() == &late);
    auto& fourth = ring.queued();
    CHECK(ring.finish_and_next() == &fourth);
    CHECK(ring.finish_and_next() == nullptr);
    CHECK(ring.idle());
    CHECK(ring.pending() == 0);
  }
}
