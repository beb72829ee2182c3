// driven.hpp - a ring and its requests, moved by hand, step after step.
#pragma once

#include <turnstile/detail/inbox_ring.hpp>
#include <turnstile/detail/ticket_ring.hpp>

#if defined(TURNSTILE_RING_CYCLE)
#include <turnstile/detail/cycle_ring.hpp>
#endif

#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <string>

namespace turnstile::detail {

inline doctest::String toString(arrival a) {
  constexpr const char* names[] = {"owner", "queued", "closed"};
  return names[static_cast<std::size_t>(a)];
}

inline doctest::String toString(after_publish a) {
  constexpr const char* names[] = {"nothing", "take_over", "closed"};
  return names[static_cast<std::size_t>(a)];
}

}  // namespace turnstile::detail

namespace ring_test {

using turnstile::detail::after_publish;
using turnstile::detail::arrival;
using turnstile::detail::inbox_ring;
using turnstile::detail::request;
using turnstile::detail::ticket_ring;

#if defined(TURNSTILE_RING_CYCLE)
using turnstile::detail::cycle_ring;
#define ALL_RINGS ticket_ring, inbox_ring, cycle_ring
#define RINGS_WITH_TICKETS ticket_ring, cycle_ring
#else
#define ALL_RINGS ticket_ring, inbox_ring
#define RINGS_WITH_TICKETS ticket_ring
#endif

// The steps of the protocol, each on its own. Null stands for "the ring gave nothing".
template <class Ring>
class driven {
 public:
  struct visitor : request {
    typename Ring::place place{};
  };

  explicit driven(std::size_t cells = 8) : ring_(cells), mine_(cells) {}

  // Producers.
  visitor& visit() { return visitors_.emplace_back(); }
  arrival arrive(visitor& v) { return ring_.arrive(v.place); }
  arrival try_arrive(visitor& v) { return ring_.try_arrive(v.place); }
  arrival close(visitor& v) { return ring_.close(v.place); }
  after_publish publish(visitor& v) { return ring_.publish(v, v.place, mine_); }
  after_publish publish_last(visitor& v) { return ring_.publish_last(v, v.place, mine_); }

  // One that is in line, without owning the ring.
  visitor& queued() {
    visitor& v = visit();
    REQUIRE(arrive(v) == arrival::queued);
    REQUIRE(publish(v) == after_publish::nothing);
    return v;
  }
  // One that has its place in line and is late.
  visitor& late() {
    visitor& v = visit();
    REQUIRE(arrive(v) == arrival::queued);
    return v;
  }
  // One that finds nobody.
  visitor& owner() {
    visitor& v = visit();
    REQUIRE(arrive(v) == arrival::owner);
    return v;
  }

  // The owner.
  bool leave(visitor& v) { return ring_.leave(v.place, mine_); }
  void begin(visitor& v) { Ring::begin(v.place, mine_); }
  void finish() { Ring::finish(mine_); }
  void account() { ring_.account(mine_); }
  void put_back(visitor& v) { ring_.put_back(v, mine_); }
  visitor* next() { return static_cast<visitor*>(ring_.next(mine_)); }
  visitor* finish_and_next() {
    finish();
    return next();
  }

  std::size_t pending() const { return ring_.pending(); }
  std::size_t most_pending() const { return ring_.most_pending(); }

  bool idle() {
    visitor& v = visit();
    return try_arrive(v) == arrival::owner && leave(v);
  }

 private:
  std::deque<visitor> visitors_;
  Ring ring_;
  typename Ring::private_side mine_;
};

}  // namespace ring_test
