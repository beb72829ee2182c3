// pace.cpp - who is brisk: no more than 200 ns a request beside serving, and 2 us with it.

#include "executor/pace.hpp"

#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>

using namespace std::chrono_literals;
using turnstile::detail::asked_here;
using turnstile::detail::pace;
using turnstile::detail::steady_clock;
using turnstile::detail::thread_state;

namespace {

// What it says of a thread that makes so many requests in `time`, and serves for so long in that.
bool is_brisk(std::uint32_t requests, std::chrono::nanoseconds time,
              std::chrono::nanoseconds serving) {
  pace p;
  const steady_clock::time_point begin{1h};
  p.begin({7, 1000}, begin);
  return p.look({7 + requests, 1000 + static_cast<std::uint64_t>(serving.count())}, begin + time);
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("pace: what a thread does beside serving decides") {
    CHECK(is_brisk(500, 100us, 0us));
    CHECK_FALSE(is_brisk(499, 100us, 0us));
    CHECK(is_brisk(50, 100us, 90us));
    CHECK_FALSE(is_brisk(49, 100us, 90us));
  }

  TEST_CASE("pace: long bodies are not brisk, however little is done beside them") {
    CHECK(is_brisk(50, 100us, 100us));
    CHECK_FALSE(is_brisk(49, 100us, 100us));
  }

  TEST_CASE("pace: who serves others only and makes no request is not brisk") {
    thread_state t;
    t.last_in_turn = 1000;  // bodies
    t.left_in_turn = 0;
    t.served = 1000;
    t.serving_ns = 99'000;
    CHECK(asked_here(t).requests == 0);
    CHECK_FALSE(is_brisk(asked_here(t).requests, 100us, 99us));
    t.to_be_served = 400;
    t.last_in_turn += 100;  // not queued
    CHECK(asked_here(t).requests == 500);
    CHECK(asked_here(t).serving_ns == 99'000);
  }

  TEST_CASE("pace: a short look leaves the last judgement, and after a long one it begins anew") {
    pace p;
    const steady_clock::time_point begin{1h};
    p.begin({0, 0}, begin);
    CHECK_FALSE(p.look({1000, 0}, begin + 19us));
    CHECK(p.look({1000, 0}, begin + 20us));
    CHECK(p.look({1000, 0}, begin + 39us));
    CHECK_FALSE(p.is_outdated(begin + 1020us));
    CHECK(p.is_outdated(begin + 1021us));
    CHECK_FALSE(p.look({100'000, 0}, begin + 1021us));
    CHECK(p.look({100'100, 0}, begin + 1041us));
  }
}
