// turn_length.cpp - how many bodies a turn has, where others wait for the worker.

#include "executor/turn_length.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <vector>

using namespace std::chrono_literals;
using namespace turnstile;
using detail::steady_clock;
using detail::turn_length;

namespace {

// A worker on which turns end one after the other, each of one job.
class one_after_the_other {
 public:
  std::uint8_t turn_of(steady_clock::duration took, std::uint32_t jobs = 1) {
    now_ += took;
    jobs_ += jobs;
    return bodies_ = length_.after(bodies_, jobs_, now_);
  }
  bool is_measured() const { return length_.measures(); }
  void measure() { length_.measure(); }

 private:
  turn_length length_;
  std::uint8_t bodies_ = 32;
  std::uint32_t jobs_ = 7;
  steady_clock::time_point now_{1h};
};

void take_longer_than_a_turn_may() {
  const auto begun = steady_clock::now();
  while (steady_clock::now() - begun <= turn_length::most_time) {}
}

task<> run(critical_section& cs, int id, int bodies, std::vector<int>& who) {
  for (int i = 0; i != bodies; ++i) {
    co_await cs.execute([&who, id] {
      take_longer_than_a_turn_may();
      who.push_back(id);
    });
  }
}

// By a worker, so that neither begins before the other one waits.
task<> run_both(critical_section& cs, async_scope& scope, int bodies, std::vector<int>& who) {
  for (const int id : {1, 2}) scope.spawn(run(cs, id, bodies, who));
  co_return;
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("turn_length: a turn has 32 bodies if they take 8 us") {
    one_after_the_other worker;
    CHECK(worker.turn_of(1s) == 32);
    CHECK(worker.turn_of(8us) == 32);
  }

  TEST_CASE("turn_length: of bodies that take longer it has as many as take 8 us, and at least one") {
    one_after_the_other worker;
    CHECK(worker.turn_of(1s) == 32);
    CHECK(worker.turn_of(64us) == 4);
    CHECK(worker.turn_of(8us) == 4);
    CHECK(worker.turn_of(1ms) == 1);
    CHECK(worker.turn_of(2us) == 4);
    CHECK(worker.turn_of(1us) == 32);
  }

  TEST_CASE("turn_length: what is not one turn alone says nothing") {
    one_after_the_other worker;
    CHECK(worker.turn_of(1s) == 32);
    CHECK(worker.turn_of(1ms, 2) == 32);
    CHECK(worker.turn_of(1ms, 0) == 32);
    CHECK(worker.turn_of(1ms) == 1);
  }

  TEST_CASE("turn_length: turns that are far from too long are not measured until somebody asks for it") {
    one_after_the_other worker;
    CHECK(worker.is_measured());
    CHECK(worker.turn_of(1s) == 32);
    CHECK(worker.turn_of(3us) == 32);
    CHECK(worker.is_measured());
    CHECK(worker.turn_of(1us) == 32);
    CHECK_FALSE(worker.is_measured());
    worker.measure();
    CHECK(worker.is_measured());
  }

  TEST_CASE("turn_length: coroutines on one worker whose bodies take long run one body each in turn") {
    constexpr int bodies = 4 * 32;
    thread_pool pool(1);
    critical_section cs;
    std::vector<int> who;
    async_scope scope{{.executor = pool}};
    sync_wait(schedule_on(pool, run_both(cs, scope, bodies, who)));
    sync_wait(scope.join());
    REQUIRE(who.size() == 2 * bodies);
    for (std::size_t i = who.size() - bodies; i != who.size(); ++i) {
      CAPTURE(i);
      CHECK(who[i] != who[i - 1]);
    }
  }
}
