// gathering.cpp - a trial goes on as long as the pool runs more bodies so, and not for ever.

#include "executor/gathering.hpp"

#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <vector>

using namespace turnstile::detail;
using namespace std::chrono_literals;

namespace {

using verdict = gathering::verdict;

// A worker that looks every 100 us, in a pool that runs so many bodies meanwhile.
struct worker_of_a_pool {
  verdict look(std::uint32_t bodies_in_100_us, std::uint32_t jobs_in_100_us = 10) {
    now += 100us;
    total += bodies_in_100_us;
    bodies += bodies_in_100_us;
    jobs += jobs_in_100_us;
    const verdict v =
        gathers.look({now < tries_until, jobs, bodies, now}, [this] { return total; });
    if (v == verdict::go_on) tries_until = now + pace::trial;
    if (v == verdict::no_more || v == verdict::is_spent) tries_until = now;
    return v;
  }
  void share_the_work(std::chrono::microseconds time, std::uint32_t bodies_in_100_us) {
    for (; time > 0us; time -= 100us) CHECK(look(bodies_in_100_us) == verdict::nothing);
  }
  // The time until it says something else.
  verdict go_on(std::uint32_t bodies_in_100_us, std::uint32_t jobs_in_100_us = 10) {
    const auto begun = now;
    verdict v = verdict::go_on;
    while (v == verdict::go_on) v = look(bodies_in_100_us, jobs_in_100_us);
    went_on = now - begun;
    return v;
  }
  void begin_trial() { tries_until = now + pace::trial; }

  gathering gathers;
  // Just before the counts begin again.
  std::uint32_t total = -5000U;
  std::uint32_t bodies = -3000U;
  std::uint32_t jobs = 0;
  steady_clock::time_point now{1h};
  steady_clock::time_point tries_until{};
  steady_clock::duration went_on{};
};

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("gathering: without a trial there is nothing to say") {
    worker_of_a_pool w;
    w.share_the_work(100ms, 400);
    w.share_the_work(100ms, 1000);
  }

  TEST_CASE("gathering: what is no faster on one thread ends with the trial") {
    for (const std::uint32_t there : {300U, 400U, 450U}) {
      CAPTURE(there);
      worker_of_a_pool w;
      w.share_the_work(20ms, 400);
      w.begin_trial();
      CHECK(w.go_on(there) == verdict::no_more);
      CHECK(w.went_on <= 800us);
      w.share_the_work(1ms, 400);
    }
  }

  TEST_CASE("gathering: what is faster there stays, for ever longer, and is shared in between") {
    worker_of_a_pool w;
    std::vector<steady_clock::duration> stays;
    for (int i = 0; i != 6; ++i) {
      w.share_the_work(10ms, 400);
      w.begin_trial();
      CHECK(w.go_on(800) == verdict::is_spent);
      stays.push_back(w.went_on);
    }
    auto expected = std::chrono::duration_cast<steady_clock::duration>(gathering::shortest_stay);
    for (const auto stay : stays) {
      CHECK(stay >= expected);
      CHECK(stay <= expected + 2ms);
      if (expected < gathering::longest_stay) expected *= 2;
    }
  }

  TEST_CASE("gathering: once it is not faster any more it is over, and begins from a short stay") {
    worker_of_a_pool w;
    for (int i = 0; i != 3; ++i) {
      w.share_the_work(10ms, 400);
      w.begin_trial();
      CHECK(w.go_on(800) == verdict::is_spent);
    }
    w.share_the_work(10ms, 400);
    w.begin_trial();
    for (int i = 0; i != 30; ++i) CHECK(w.look(800) == verdict::go_on);
    CHECK(w.go_on(420) == verdict::no_more);
    CHECK(w.went_on <= 2ms);
    w.share_the_work(10ms, 400);
    w.begin_trial();
    CHECK(w.go_on(800) == verdict::is_spent);
    CHECK(w.went_on <= gathering::shortest_stay + 2ms);
  }

  TEST_CASE("gathering: jobs that run no bodies are not kept from the others") {
    worker_of_a_pool w;
    w.share_the_work(20ms, 400);
    w.begin_trial();
    for (int i = 0; i != 30; ++i) CHECK(w.look(800, 1600) == verdict::go_on);
    CHECK(w.go_on(800, 1700) == verdict::no_more);
  }

  TEST_CASE("gathering: a rate is not made of times in which the worker stood still") {
    worker_of_a_pool w;
    w.share_the_work(20ms, 400);
    w.now += 100ms;
    w.share_the_work(4ms, 400);
    w.begin_trial();
    // It knows of less than 5 ms, so the trial ends as it would.
    while (w.now < w.tries_until) CHECK(w.look(800) == verdict::nothing);
    w.share_the_work(7ms, 400);
    w.begin_trial();
    CHECK(w.look(800) == verdict::go_on);
  }

  TEST_CASE("gathering: nor is it known when it has just stood still") {
    worker_of_a_pool w;
    w.share_the_work(20ms, 400);
    w.now += 100ms;
    w.begin_trial();
    while (w.now < w.tries_until) CHECK(w.look(800) == verdict::nothing);
  }

  TEST_CASE(
      "gathering: a worker that has stood still, or whose trial was ended, is not left alone") {
    worker_of_a_pool w;
    w.share_the_work(20ms, 400);
    w.begin_trial();
    for (int i = 0; i != 30; ++i) CHECK(w.look(800) == verdict::go_on);
    w.now += 1ms;
    CHECK(w.look(8000) == verdict::nothing);
    w.share_the_work(20ms, 400);
    w.begin_trial();
    for (int i = 0; i != 30; ++i) CHECK(w.look(800) == verdict::go_on);
    w.tries_until = w.now;
    CHECK(w.look(800) == verdict::nothing);
  }
}
