// neighbour.cpp - how much of what waits at another worker a worker takes, and when it looks.

#include "executor/neighbour.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>

using namespace std::chrono_literals;
using turnstile::detail::making_up;
using turnstile::detail::neighbour;
using turnstile::detail::now_and_then;
using turnstile::detail::steady_clock;

namespace {

// One that goes on with its jobs, and is looked at every 100 us: calm if not said otherwise, 1 us a
// body.
class busy_one {
 public:
  explicit busy_one(std::chrono::nanoseconds a_body = 1us) : a_body_(a_body) {}

  std::size_t share(std::size_t there, std::size_t here, bool at_once = false) {
    return share_after(100us, there, here, at_once);
  }
  std::size_t share_after(std::chrono::nanoseconds time, std::size_t there, std::size_t here,
                          bool at_once) {
    now_ += time;
    done_ += static_cast<std::uint32_t>(time / a_body_);
    return seen_.share(done_, {done_, 0}, there, here, at_once, now_);
  }
  // The same, of one that has done nothing since the last time.
  std::size_t share_of_stopped(std::size_t there, std::size_t here) {
    now_ += 100us;
    return seen_.share(done_, {done_, 0}, there, here, false, now_);
  }
  // What is given in the end, and after how many looks; 0 if it is nothing.
  std::size_t first_share(std::size_t there, std::size_t here, int& looks) {
    for (looks = 1; looks != 100; ++looks) {
      if (const std::size_t n = share(there, here); n != 0) return n;
    }
    return 0;
  }

 private:
  neighbour seen_;
  std::chrono::nanoseconds a_body_;
  std::uint32_t done_ = 0;
  steady_clock::time_point now_{1h};
};

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("neighbour: half of a surplus is taken once it has lasted for 2 ms") {
    busy_one there;
    int looks = 0;
    CHECK(there.first_share(110, 10, looks) == 50);
    CHECK(looks == 22);  // one more, to know how fast it is
  }

  TEST_CASE(
      "neighbour: where nothing waits half of it is taken after 150 us, if nothing came "
      "meanwhile") {
    busy_one there;
    int looks = 0;
    CHECK(there.first_share(100, 0, looks) == 50);
    CHECK(looks == 4);  // one more, to know how fast it is
    CHECK(there.share(100, 0) == 0);
    CHECK(there.share(100, 0) == 0);
    CHECK(there.share(100, 1) == 0);
    CHECK(there.share(100, 0) == 0);
    CHECK(there.share(100, 0) == 49);
  }

  TEST_CASE("neighbour: of a surplus the least that was there all the while counts") {
    busy_one there;
    CHECK(there.share(110, 10) == 0);
    CHECK(there.share(30, 10) == 0);
    int looks = 0;
    CHECK(there.first_share(110, 10, looks) == 10);
  }

  TEST_CASE("neighbour: a quarter more and one is no surplus") {
    busy_one there;
    int looks = 0;
    CHECK(there.first_share(51, 40, looks) == 0);
    CHECK(there.first_share(52, 40, looks) == 6);
  }

  TEST_CASE(
      "neighbour: who has stood still itself need not wait for that, but knows whether it is calm "
      "there") {
    busy_one there;
    CHECK(there.share(110, 10, true) == 0);
    CHECK(there.share(110, 10, true) == 50);
  }

  TEST_CASE("neighbour: half of what waits at one that stands still is taken at once") {
    busy_one there;
    CHECK(there.share(9, 10) == 0);
    CHECK(there.share_of_stopped(9, 10) == 5);
    CHECK(there.share_of_stopped(1, 10) == 1);
  }

  TEST_CASE("neighbour: one that is brisk keeps its surplus") {
    busy_one there(100ns);
    for (int i = 0; i != 100; ++i) CHECK(there.share(110, 10, i % 2 == 0) == 0);
  }

  TEST_CASE("neighbour: who has just begun to judge does not know whether it is brisk there") {
    busy_one there;
    CHECK(there.share(110, 10, true) == 0);
    CHECK(there.share_after(1us, 110, 10, true) == 0);
    CHECK(there.share_after(18us, 110, 10, true) == 0);
    CHECK(there.share_after(1us, 110, 10, true) == 50);
  }

  TEST_CASE("making_up: begins with a look that comes late, and lasts until all were seen twice") {
    for (const std::uint32_t to_see_all : {1u, 2u, 8u}) {
      making_up makes_up;
      steady_clock::time_point now{1h};
      makes_up.note_look(to_see_all, now);
      CHECK_FALSE(makes_up.is_on());  // the first one is never late
      makes_up.note_look(to_see_all, now += 499us);
      CHECK_FALSE(makes_up.is_on());
      makes_up.note_look(to_see_all, now += 500us);
      std::uint32_t looks = 0;
      for (; makes_up.is_on(); ++looks) makes_up.note_look(to_see_all, now += 100us);
      CHECK(looks == std::max(4u, 2 * to_see_all));
    }
  }

  TEST_CASE("now_and_then: comes every time at first, and says when") {
    now_and_then looks;
    CHECK(looks.comes(1, 0));
    const auto first = looks.last();
    CHECK(looks.comes(2, 0));
    CHECK(looks.last() >= first);
  }

  TEST_CASE(
      "now_and_then: comes after so many jobs and bodies at the latest, also where both wrap") {
    now_and_then looks;
    std::uint32_t jobs = 0xffff'ff00;
    std::uint32_t bodies = 0xffff'f000;
    for (int i = 0; i != 100; ++i) looks.comes(++jobs, bodies);
    int more = 1;
    while (!looks.comes(++jobs, bodies)) ++more;
    CHECK(more <= 256);
    more = 1;
    while (!looks.comes(jobs, ++bodies)) ++more;
    CHECK(more <= 8192);
  }
}
