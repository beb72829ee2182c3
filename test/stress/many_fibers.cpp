// many_fibers.cpp - a hundred thousand fibers alive at once, each with frames on its stack, and the
// memory they take. Their stacks are guarded where the kernel has guards that cost no mapping.

#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <cstdio>
#include <doctest/doctest.h>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

using namespace turnstile;

namespace {

constexpr std::size_t many = 100'000;

std::size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    std::size_t kib = 0;
    status >> kib;
    return kib * 1024;
  }
  return 0;
}

// What a program would do: a few calls with something on the stack, and the wait at their end.
[[gnu::noinline]] int wait_below(critical_section& cs, std::size_t& n, int calls) {
  volatile char some[200];
  some[0] = static_cast<char>(calls);
  if (calls != 0) return wait_below(cs, n, calls - 1) + some[0];
  turnstile::await(cs.execute([&n] { ++n; }));
  return some[0];
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("fibers: a hundred thousand at once, within 2 GiB") {
    const std::size_t before = resident_bytes();
    thread_pool pool(2);
    critical_section cs;
    std::size_t n = 0;
    std::vector<fiber<int>> all;
    all.reserve(many);
    {
      const section_guard busy = support::hold(cs);
      for (std::size_t i = 0; i != many; ++i) {
        all.push_back(pool.spawn_fiber([&] { return wait_below(cs, n, 8); }));
      }
      support::wait_for_waiters(cs, many);
      const std::size_t took = resident_bytes() - before;
      std::printf("  %zu fibers wait in one line: %zu MiB, %zu bytes each\n", many, took >> 20,
                  took / many);
      CHECK(took < std::size_t{2} << 30);
      CHECK(n == 0);
    }
    for (fiber<int>& f : all) CHECK(sync_wait(std::move(f)) == 36);
    CHECK(n == many);
  }
}
