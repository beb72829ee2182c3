// order.cpp - what every ring does: who owns it, who is next, when it is idle.

#include "ring/driven.hpp"

#include <vector>

using namespace ring_test;

namespace {

constexpr std::size_t cell_counts[] = {1, 2, 8, 64};

template <class Ring>
using visitors = std::vector<typename driven<Ring>::visitor*>;

template <class Ring>
visitors<Ring> queue_up(driven<Ring>& ring, int n) {
  visitors<Ring> all;
  for (int i = 0; i != n; ++i) all.push_back(&ring.queued());
  return all;
}

// Serves from the first, who arrived as the owner, to the end.
template <class Ring>
visitors<Ring> serve(driven<Ring>& ring, typename driven<Ring>::visitor& first) {
  visitors<Ring> all;
  ring.begin(first);
  while (auto* const v = ring.finish_and_next()) all.push_back(v);
  return all;
}

}  // namespace

TEST_SUITE("ring") {
  TEST_CASE_TEMPLATE("arrive: the first one owns the ring, whoever comes later is queued", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    CHECK(ring.arrive(ring.visit()) == arrival::owner);
    CHECK(ring.arrive(ring.visit()) == arrival::queued);
    CHECK(ring.arrive(ring.visit()) == arrival::queued);
  }

  TEST_CASE_TEMPLATE("leave: the ring is idle when nobody came, and can be owned again", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    for (int i = 0; i != 1000; ++i) REQUIRE(ring.leave(ring.owner()));
    CHECK(ring.pending() == 0);
  }

  TEST_CASE_TEMPLATE("leave: the owner stays if somebody is in line, and next gives that one", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    auto& first = ring.owner();
    auto& second = ring.queued();
    REQUIRE_FALSE(ring.leave(first));
    CHECK(ring.next() == &second);
    CHECK(ring.finish_and_next() == nullptr);
    CHECK(ring.idle());
  }

  TEST_CASE_TEMPLATE("begin and finish: the long way out of an idle ring ends idle too", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    ring.begin(ring.owner());
    CHECK(ring.finish_and_next() == nullptr);
    CHECK(ring.idle());
  }

  TEST_CASE_TEMPLATE("next: requests come in the order of arrival, with any number of cells", Ring,
                     ALL_RINGS) {
    for (const std::size_t cells : cell_counts) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      auto& first = ring.owner();
      const auto asked = queue_up(ring, 100);
      CHECK(serve(ring, first) == asked);
      CHECK(ring.idle());
    }
  }

  TEST_CASE_TEMPLATE("next: after leave too", Ring, ALL_RINGS) {
    for (const std::size_t cells : cell_counts) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      auto& first = ring.owner();
      const auto asked = queue_up(ring, 100);
      REQUIRE_FALSE(ring.leave(first));
      visitors<Ring> served;
      for (auto* v = ring.next(); v != nullptr; v = ring.finish_and_next()) served.push_back(v);
      CHECK(served == asked);
      CHECK(ring.idle());
    }
  }

  TEST_CASE_TEMPLATE("next: sees what is published while it is being served", Ring, ALL_RINGS) {
    for (const std::size_t cells : cell_counts) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      ring.begin(ring.owner());
      visitors<Ring> asked = queue_up(ring, 2);
      std::size_t served = 0;
      while (auto* const v = ring.finish_and_next()) {
        REQUIRE(v == asked[served++]);
        if (asked.size() < 500) asked.push_back(&ring.queued());
      }
      CHECK(served == 500);
      CHECK(ring.idle());
    }
  }

  TEST_CASE_TEMPLATE("cells: are used lap after lap, from idle to idle", Ring, ALL_RINGS) {
    for (const std::size_t cells : cell_counts) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      for (int lap = 0; lap != 200; ++lap) {
        auto& first = ring.owner();
        const auto asked = queue_up(ring, lap % 7);
        REQUIRE(serve(ring, first) == asked);
      }
      CHECK(ring.idle());
    }
  }

  TEST_CASE_TEMPLATE("a request: can be used again once it was served", Ring, ALL_RINGS) {
    driven<Ring> ring(2);
    auto& v = ring.visit();
    for (int i = 0; i != 100; ++i) {
      auto& first = ring.owner();
      REQUIRE(ring.arrive(v) == arrival::queued);
      REQUIRE(ring.publish(v) == after_publish::nothing);
      REQUIRE_FALSE(ring.leave(first));
      REQUIRE(ring.next() == &v);
      REQUIRE(ring.finish_and_next() == nullptr);
    }
  }

  TEST_CASE_TEMPLATE("put_back: the same request comes again, and the order stays", Ring,
                     ALL_RINGS) {
    for (const std::size_t cells : cell_counts) {
      CAPTURE(cells);
      driven<Ring> ring(cells);
      ring.begin(ring.owner());
      const auto asked = queue_up(ring, 30);
      for (auto* const v : asked) {
        REQUIRE(ring.finish_and_next() == v);
        ring.account();
        ring.put_back(*v);
        auto& late = ring.late();
        REQUIRE(ring.next() == v);
        REQUIRE(ring.publish(late) == after_publish::nothing);
      }
      for (std::size_t i = 0; i != asked.size(); ++i) REQUIRE(ring.finish_and_next() != nullptr);
      CHECK(ring.finish_and_next() == nullptr);
      CHECK(ring.idle());
      CHECK(ring.pending() == 0);
    }
  }

  TEST_CASE_TEMPLATE("put_back: of the one that arrived as the owner", Ring, ALL_RINGS) {
    driven<Ring> ring;
    for (int i = 0; i != 20; ++i) {
      auto& first = ring.owner();
      ring.begin(first);
      ring.put_back(first);
      auto& second = ring.queued();
      CHECK(ring.next() == &first);
      CHECK(ring.finish_and_next() == &second);
      CHECK(ring.finish_and_next() == nullptr);
      CHECK(ring.pending() == 0);
    }
  }

  TEST_CASE_TEMPLATE("try_arrive: owns an idle ring and leaves a busy one as it is", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    auto& first = ring.visit();
    REQUIRE(ring.try_arrive(first) == arrival::owner);
    CHECK(ring.try_arrive(ring.visit()) == arrival::queued);
    CHECK(ring.pending() == 1);
    auto& second = ring.queued();
    REQUIRE_FALSE(ring.leave(first));
    CHECK(ring.next() == &second);
    CHECK(ring.finish_and_next() == nullptr);
    CHECK(ring.idle());
  }

  TEST_CASE_TEMPLATE("pending: counts the one being served and those in line", Ring, ALL_RINGS) {
    driven<Ring> ring;
    CHECK(ring.pending() == 0);
    auto& first = ring.owner();
    CHECK(ring.pending() == 1);
    queue_up(ring, 3);
    CHECK(ring.pending() == 4);
    ring.begin(first);
    REQUIRE(ring.finish_and_next() != nullptr);
    ring.account();
    CHECK(ring.pending() == 3);
    REQUIRE(ring.finish_and_next() != nullptr);
    REQUIRE(ring.finish_and_next() != nullptr);
    ring.account();
    CHECK(ring.pending() == 1);
    REQUIRE(ring.finish_and_next() == nullptr);
    CHECK(ring.pending() == 0);
  }

  TEST_CASE_TEMPLATE("account: what is not finished stays, and serving goes on as before", Ring,
                     ALL_RINGS) {
    driven<Ring> ring(2);
    auto& first = ring.owner();
    const auto asked = queue_up(ring, 20);
    ring.begin(first);
    for (std::size_t i = 0; i != asked.size(); ++i) {
      ring.account();
      REQUIRE(ring.finish_and_next() == asked[i]);
      if (i % 3 == 0) ring.account();
    }
    CHECK(ring.finish_and_next() == nullptr);
    CHECK(ring.idle());
  }

  TEST_CASE_TEMPLATE("most_pending: is the highest that pending was while somebody waited", Ring,
                     ALL_RINGS) {
    driven<Ring> ring;
    REQUIRE(ring.leave(ring.owner()));
    CHECK(ring.most_pending() <= 1);
    auto& first = ring.owner();
    queue_up(ring, 5);
    CHECK(ring.most_pending() == 6);
    serve(ring, first);
    auto& again = ring.owner();
    queue_up(ring, 2);
    serve(ring, again);
    CHECK(ring.most_pending() == 6);
  }
}
