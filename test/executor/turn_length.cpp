// turn_length.cpp - how many bodies a turn has, where others wait for the worker, and where nobody
// does.

#include "executor/turn_length.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <optional>
#include <vector>

using namespace std::chrono_literals;
using namespace turnstile;
using detail::lone_turns;
using detail::steady_clock;
using detail::turn_length;

namespace {

// A worker whose jobs end with a turn of so many bodies.
class worker {
 public:
  // What the next turn has, if it was measured.
  std::optional<std::uint8_t> run_job(std::uint32_t bodies, steady_clock::duration took) {
    start_job(bodies, took);
    if (length_.is_measured(job_)) return length_.end(bodies_, now_);
    length_.end_unmeasured();
    return std::nullopt;
  }
  // One in which no turn ends.
  void start_job(std::uint32_t bodies, steady_clock::duration took) {
    ++job_;
    if (length_.watches()) length_.begin(job_, bodies_, now_);
    bodies_ += bodies;
    now_ += took;
  }
  bool watches() const { return length_.watches(); }
  void watch() { length_.watch(); }

 private:
  turn_length length_;
  std::uint32_t job_ = 0;
  std::uint32_t bodies_ = 0xffff'fff0;
  steady_clock::time_point now_{1h};
};

// A job whose turns begin where nobody waits.
class lone_job {
 public:
  // How many bodies the next turn has, after one of so many.
  std::uint32_t end_turn(std::uint32_t bodies, steady_clock::duration took) {
    bodies_ += bodies;
    now_ += took;
    return turns_.begin(job_, bodies_, now_, 32);
  }
  void begin_another() { ++job_; }

 private:
  lone_turns turns_;
  std::uint32_t job_ = 0xffff'ffff;
  std::uint32_t bodies_ = 0xffff'fff0;
  steady_clock::time_point now_{1h};
};

void take_longer_than_a_turn_may() {
  const auto begun = steady_clock::now();
  while (steady_clock::now() - begun <= detail::longest_lone_turn) {
  }
}

task<> run(critical_section& cs, int id, int bodies, std::vector<int>& who) {
  for (int i = 0; i != bodies; ++i) {
    co_await cs.execute([&who, id] {
      take_longer_than_a_turn_may();
      who.push_back(id);
    });
  }
}

// Notes how many bodies have run before it does.
struct latecomer : job {
  explicit latecomer(const int& n) noexcept : job(&come), ran(n) {}
  static void come(job& j) noexcept {
    auto& self = static_cast<latecomer&>(j);
    self.came_after = self.ran;
  }

  const int& ran;
  int came_after = -1;
};

// Its bodies take long. In one of them `late` comes to its worker.
task<> run_alone(thread_pool& pool, int bodies, int meets_in, latecomer& late, int& ran) {
  critical_section cs;
  while (ran != bodies) {
    co_await cs.execute([&] {
      take_longer_than_a_turn_may();
      if (++ran == meets_in) pool.post(late);
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
  TEST_CASE("turn_length: the first turn is not measured, the next one is") {
    worker w;
    CHECK(w.run_job(32, 5us) == std::nullopt);
    CHECK(w.run_job(32, 5us) == 32);
  }

  TEST_CASE(
      "turn_length: of bodies that take longer it has as many as take 5 us, and at least one") {
    worker w;
    w.watch();
    CHECK(w.run_job(32, 40us) == 4);
    CHECK(w.run_job(4, 5us) == 4);
    CHECK(w.run_job(4, 1ms) == 1);
    CHECK(w.run_job(1, 1us) == 5);
    CHECK(w.run_job(5, 1us) == 25);
    CHECK(w.run_job(4, 500ns) == 32);
  }

  TEST_CASE("turn_length: bodies that it has served for others count, too") {
    worker w;
    w.watch();
    CHECK(w.run_job(64, 10us) == 32);
  }

  TEST_CASE("turn_length: a turn is measured also where other jobs run in between") {
    worker w;
    w.run_job(32, 40us);
    for (int i = 0; i != 3; ++i) {
      w.start_job(0, 100us);
      CHECK(w.run_job(32, 40us) == 4);
    }
  }

  TEST_CASE("turn_length: a few jobs are watched, then none before a turn ends") {
    worker w;
    w.watch();
    for (int i = 0; i != 8; ++i) {
      CHECK(w.watches());
      w.start_job(1, 1us);
    }
    CHECK_FALSE(w.watches());
    CHECK(w.run_job(32, 40us) == std::nullopt);
    CHECK(w.watches());
  }

  TEST_CASE(
      "turn_length: where turns of 32 bodies take less than 4 us none is watched until somebody "
      "asks for it") {
    worker w;
    w.watch();
    CHECK(w.run_job(32, 4us) == 32);
    for (int i = 0; i != 8; ++i) w.run_job(32, 4us);
    CHECK_FALSE(w.watches());
    CHECK(w.run_job(32, 40us) == std::nullopt);
    CHECK_FALSE(w.watches());
    w.watch();
    CHECK(w.run_job(32, 40us) == 4);
  }

  TEST_CASE("lone_turns: each is twice as long as the one before, up to 256 bodies") {
    lone_job j;
    CHECK(j.end_turn(32, 1us) == 32);  // what came before may have been slow
    for (const std::uint32_t bodies : {64u, 128u, 256u, 256u}) {
      CHECK(j.end_turn(bodies / 2, 1us) == bodies);
    }
  }

  TEST_CASE(
      "lone_turns: of bodies that take longer one has as many as take 8 us, and one at least") {
    lone_job j;
    j.end_turn(32, 1us);
    CHECK(j.end_turn(32, 64us) == 4);
    CHECK(j.end_turn(4, 1ms) == 1);
    CHECK(j.end_turn(1, 8us) == 1);
    CHECK(j.end_turn(1, 0us) == 2);
    CHECK(j.end_turn(2, 1us) == 4);
  }

  TEST_CASE("lone_turns: the first one of another job is as short as any") {
    lone_job j;
    j.end_turn(32, 1us);
    CHECK(j.end_turn(32, 1us) == 64);
    j.begin_another();
    CHECK(j.end_turn(64, 1us) == 32);
    CHECK(j.end_turn(32, 64us) == 4);
  }

  TEST_CASE("lone_turns: who comes while bodies take long waits for two of them at most") {
    constexpr int meets_in = 70;  // the first two turns may be long ones
    int ran = 0;
    latecomer late(ran);  // may run as late as when the pool ends
    thread_pool pool(1);
    sync_wait(schedule_on(pool, run_alone(pool, 2 * meets_in, meets_in, late, ran)));
    CHECK(late.came_after >= meets_in);
    CHECK(late.came_after <= meets_in + 2);
  }

  TEST_CASE(
      "turn_length: coroutines on one worker whose bodies take long run one body each in turn") {
    constexpr std::size_t turn = 32;
    constexpr int bodies = 4 * turn;
    thread_pool pool(1);
    critical_section cs;
    std::vector<int> who;
    async_scope scope{{.executor = pool}};
    sync_wait(schedule_on(pool, run_both(cs, scope, bodies, who)));
    sync_wait(scope.join());
    REQUIRE(who.size() == 2 * bodies);
    // The first turn of each may be a long one, and so the last of one of them.
    for (std::size_t i = 2 * turn + 1; i != who.size() - 2 * turn; ++i) {
      CAPTURE(i);
      CHECK(who[i] != who[i - 1]);
    }
  }
}
