// pace.cpp - who is brisk: no more than 200 ns a request beside serving, and 2 us with it; and who
// tries to be.

#include "executor/pace.hpp"

#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>

using namespace std::chrono_literals;
using turnstile::detail::asked_here;
using turnstile::detail::pace;
using turnstile::detail::steady_clock;
using turnstile::detail::thread_state;
using turnstile::detail::turn_to_try;

namespace {

// What it says of a thread that makes so many requests in `time`, and serves for so long in that.
bool is_brisk(std::uint32_t requests, std::chrono::nanoseconds time,
              std::chrono::nanoseconds serving) {
  pace p;
  const steady_clock::time_point begin{1h};
  p.begin({7, 1000}, begin);
  return p.look({7 + requests, 1000 + static_cast<std::uint64_t>(serving.count())}, begin + time);
}

// What one look of 100 us was like.
bool would_try(std::uint32_t requests, std::uint64_t serving_ns, std::uint32_t served) {
  pace p;
  const steady_clock::time_point begin{1h};
  p.begin({0, 0}, begin);
  REQUIRE_FALSE(p.look({requests, serving_ns, served}, begin + 100us));
  return p.may_try(begin + 100us);
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

  TEST_CASE("pace: what counts once more is a request, and no part of a turn") {
    thread_state t;
    const std::uint32_t left = t.left_in_turn;
    for (int i = 0; i != 250; ++i) t.count_once_more();
    t.last_in_turn += 250;  // bodies
    CHECK(asked_here(t).requests == 500);
    CHECK(is_brisk(asked_here(t).requests, 100us, 0us));
    CHECK(t.left_in_turn == left);
  }

  TEST_CASE("pace: who only serves tries now and then for a while, and ever more seldom in vain") {
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
    CHECK_FALSE(p.may_try(now));  // nothing is known
    auto tried = now;
    for (const auto pause : {0ms, 10ms, 20ms, 40ms, 80ms, 160ms, 160ms}) {
      CAPTURE(pause.count());
      bool again = false;
      do {
        REQUIRE_FALSE(serve(200us, 1));
        again = p.may_try(now);
      } while (!again);
      p.try_from(now);
      CHECK(now - tried >= pause);
      CHECK(now - tried <= pause + 400us);
      CHECK(p.trial_ends() == now + 500us);
      tried = now;
      REQUIRE_FALSE(serve(400us, 1));
      CHECK(p.tries(now));
      REQUIRE_FALSE(serve(100us, 1));
      CHECK_FALSE(p.tries(now));
    }
    while (serve(200us, 1) || !p.may_try(now)) {
    }
    p.try_from(now);
    const auto began = now;
    CHECK(serve(200us, 200));  // it was right
    CHECK_FALSE(p.tries(now));
    REQUIRE_FALSE(serve(200us, 1));
    CHECK_FALSE(p.may_try(now));  // one look says little
    while (serve(200us, 1) || !p.may_try(now)) {
    }
    CHECK(now - began >= 160ms);
    p.try_from(now);
    CHECK(serve(100us, 200));
    CHECK(serve(100us, 200));
    REQUIRE_FALSE(serve(200us, 1));
    CHECK_FALSE(p.may_try(now));
    REQUIRE_FALSE(serve(300us, 1));
    CHECK(p.may_try(now));
    p.try_from(now);
    const auto tried_again = now;
    while (serve(200us, 1) || !p.may_try(now)) {
    }
    CHECK(now - tried_again >= 10ms);
    CHECK(now - tried_again <= 10ms + 400us);
  }

  TEST_CASE("pace: one thread of a pool tries at a time") {
    turn_to_try turn;
    const steady_clock::time_point now{1h};
    CHECK(turn.take(now, now + 500us));
    CHECK_FALSE(turn.take(now, now + 500us));
    CHECK_FALSE(turn.take(now + 499us, now + 999us));
    CHECK(turn.take(now + 500us, now + 1ms));
    CHECK_FALSE(turn.take(now + 999us, now + 2ms));
  }

  TEST_CASE(
      "pace: who does much beside serving and requests, or serves long bodies, has nothing to "
      "try") {
    CHECK(would_try(0, 75'000, 1000));
    CHECK_FALSE(would_try(0, 74'999, 1000));
    CHECK(would_try(50, 0, 1));
    CHECK_FALSE(would_try(49, 0, 1));
    CHECK_FALSE(would_try(50, 0, 0));  // of whose bodies nothing is known
    CHECK(would_try(13, 74'000, 74));
    CHECK_FALSE(would_try(12, 74'000, 74));
    CHECK_FALSE(would_try(13, 74'000, 73));
    CHECK_FALSE(would_try(0, 75'000, 74));
  }

  TEST_CASE("pace: what was seen long ago is nothing to try by") {
    pace p;
    const steady_clock::time_point begin{1h};
    p.begin({0, 0}, begin);
    CHECK_FALSE(p.look({50, 0, 1}, begin + 100us));
    CHECK_FALSE(p.look({60, 0, 2}, begin + 2ms));
    CHECK_FALSE(p.may_try(begin + 1s));
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
