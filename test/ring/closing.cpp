// closing.cpp - the last place in line, and nobody behind it.

#include "ring/driven.hpp"

using namespace ring_test;

TEST_SUITE("ring") {
  TEST_CASE_TEMPLATE("close: an idle ring is owned by who closes it, and by nobody after", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    auto& closing = ring.visit();
    REQUIRE(ring.close(closing) == arrival::owner);
    ring.begin(closing);
    CHECK(ring.arrive(ring.visit()) == arrival::closed);
    CHECK(ring.try_arrive(ring.visit()) == arrival::closed);
    CHECK(ring.close(ring.visit()) == arrival::closed);
  }

  TEST_CASE_TEMPLATE("close: comes after everybody who is in line", Ring, ALL_RINGS) {
    for (const std::size_t cells : {1, 2, 8}) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      ring.begin(ring.owner());
      auto& second = ring.queued();
      auto& third = ring.queued();
      auto& closing = ring.visit();
      REQUIRE(ring.close(closing) == arrival::queued);
      REQUIRE(ring.publish_last(closing) == after_publish::nothing);
      CHECK(ring.finish_and_next() == &second);
      CHECK(ring.finish_and_next() == &third);
      CHECK(ring.finish_and_next() == &closing);
    }
  }

  TEST_CASE_TEMPLATE("close: whoever comes afterwards is refused, busy or not", Ring, ALL_RINGS) {
    driven<Ring> ring;
    ring.begin(ring.owner());
    auto& second = ring.queued();
    auto& closing = ring.visit();
    REQUIRE(ring.close(closing) == arrival::queued);
    CHECK(ring.arrive(ring.visit()) == arrival::closed);
    REQUIRE(ring.publish_last(closing) == after_publish::nothing);
    CHECK(ring.try_arrive(ring.visit()) == arrival::closed);
    CHECK(ring.close(ring.visit()) == arrival::closed);
    REQUIRE(ring.finish_and_next() == &second);
    CHECK(ring.arrive(ring.visit()) == arrival::closed);
    REQUIRE(ring.finish_and_next() == &closing);
    CHECK(ring.arrive(ring.visit()) == arrival::closed);
  }

  TEST_CASE_TEMPLATE("close: a refused one gives its count back", Ring, ALL_RINGS) {
    driven<Ring> ring;
    ring.begin(ring.owner());
    auto& closing = ring.visit();
    REQUIRE(ring.close(closing) == arrival::queued);
    const std::size_t before = ring.pending();
    for (int i = 0; i != 1000; ++i) REQUIRE(ring.arrive(ring.visit()) == arrival::closed);
    CHECK(ring.pending() == before);
    REQUIRE(ring.publish_last(closing) == after_publish::nothing);
    CHECK(ring.finish_and_next() == &closing);
  }

  TEST_CASE("inbox: one that arrived before the close and publishes after it is refused") {
    driven<inbox_ring> ring;
    ring.begin(ring.owner());
    auto& late = ring.late();
    auto& closing = ring.visit();
    REQUIRE(ring.close(closing) == arrival::queued);
    const std::size_t before = ring.pending();
    CHECK(ring.publish(late) == after_publish::closed);
    CHECK(ring.pending() == before);
    REQUIRE(ring.publish_last(closing) == after_publish::nothing);
    CHECK(ring.finish_and_next() == &closing);
  }

  TEST_CASE("inbox: closed and parked: the closing request takes over, and is the last") {
    driven<inbox_ring> ring;
    ring.begin(ring.owner());
    auto& second = ring.queued();
    auto& closing = ring.visit();
    REQUIRE(ring.close(closing) == arrival::queued);
    REQUIRE(ring.finish_and_next() == &second);
    REQUIRE(ring.finish_and_next() == nullptr);
    CHECK(ring.arrive(ring.visit()) == arrival::closed);
    CHECK(ring.close(ring.visit()) == arrival::closed);
    REQUIRE(ring.publish_last(closing) == after_publish::take_over);
    CHECK(ring.next() == &closing);
  }

  TEST_CASE("ticket: the closing request is waited for like any other") {
    driven<ticket_ring> ring;
    ring.begin(ring.owner());
    auto& late = ring.late();
    auto& closing = ring.visit();
    REQUIRE(ring.close(closing) == arrival::queued);
    REQUIRE(ring.publish(late) == after_publish::nothing);
    REQUIRE(ring.finish_and_next() == &late);
    REQUIRE(ring.finish_and_next() == nullptr);
    CHECK(ring.arrive(ring.visit()) == arrival::closed);
    REQUIRE(ring.publish_last(closing) == after_publish::take_over);
    CHECK(ring.next() == &closing);
  }
}
