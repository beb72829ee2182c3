// even_out.cpp - who tries to be brisk is left alone.

#include "executor/even_out.hpp"

#include "executor/injector.hpp"
#include "executor/worker.hpp"

#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <limits>
#include <vector>

using namespace std::chrono_literals;
using turnstile::job;
using turnstile::detail::even_out;
using turnstile::detail::sleepers;
using turnstile::detail::steady_clock;
using turnstile::detail::worker;

namespace {

struct nothing_to_do : job {
  nothing_to_do() : job([](job&) noexcept {}) {}
};

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("even_out: what waits at one that stands still is taken, unless it tries to be brisk") {
    sleepers idle;
    std::vector<worker> workers(2);
    for (worker& w : workers) w.others.resize(2);
    workers[1].index = 1;
    std::array<nothing_to_do, 2> jobs;
    jobs[0].next = &jobs[1];
    workers[0].keep(&jobs[0], &jobs[1], 2, idle);

    workers[0].tries_until_ns = std::numeric_limits<std::int64_t>::max();
    const auto begun = steady_clock::now();
    while (steady_clock::now() - begun < 1ms) {  // ten times what would do otherwise
      even_out(workers[1], workers, steady_clock::now(), idle);
      REQUIRE(workers[1].queue.looks_empty());
    }
    workers[0].tries_until_ns = 0;
    while (workers[1].queue.looks_empty()) {
      even_out(workers[1], workers, steady_clock::now(), idle);
    }
    CHECK(workers[0].queue.size() == 1);
  }
}
