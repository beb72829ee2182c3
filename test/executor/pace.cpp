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

  TEST_CASE("pace: who only serves tries now and then, and ever more seldom in vain") {
    pace p;
    steady_clock::time_point now{1h};
    std::uint64_t serving_ns = 0;
    std::uint32_t served = 0;
    std::uint32_t requests = 0;
    const auto serve = [&](std::chrono::microseconds time, std::uint32_t asked) {
      now += time;
      const std::chrono::nanoseconds serving = time * 9 / 10;
      serving_ns += static_cast<std::uint64_t>(serving.count());
      served += static_cast<std::uint32_t>(serving / 450ns);
      requests += asked;
      return p.look({requests, serving_ns, served}, now);
    };
    p.begin({0, 0}, now);
    CHECK_FALSE(p.tries(now));  // nothing is known
    for (const auto pause : {0ms, 10ms, 20ms, 40ms, 80ms, 160ms, 160ms}) {
      CAPTURE(pause.count());
      const auto tried = now;
      bool again = false;
      do {
        REQUIRE_FALSE(serve(200us, 1));
        again = p.tries(now);
      } while (!again);
      CHECK(now - tried >= pause);
      CHECK(now - tried <= pause + 400us);
    }
    CHECK(serve(200us, 200));  // it was right
    const auto was_brisk = now;
    while (serve(200us, 1) || !p.tries(now)) {
    }
    CHECK(now - was_brisk >= 10ms);
    CHECK(now - was_brisk <= 10ms + 400us);
  }

  TEST_CASE("pace: who serves little, or long bodies, has nothing to try") {
    pace p;
    steady_clock::time_point now{1h};
    p.begin({0, 0}, now);
    now += 100us;
    CHECK_FALSE(p.look({10, 74'000, 1000}, now));
    CHECK_FALSE(p.tries(now));
    now += 100us;
    CHECK_FALSE(p.look({20, 174'000, 1199}, now));  // bodies too long
    CHECK_FALSE(p.tries(now));
    now += 100us;
    CHECK_FALSE(p.look({20, 249'000, 1349}, now));
    CHECK(p.tries(now));
    now += 2ms;  // what was seen is old
    CHECK_FALSE(p.look({30, 300'000, 1500}, now));
    CHECK_FALSE(p.tries(now + 1s));
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
