// last_result.cpp - the awaiter of the last execution destroys the section as soon as it is
// resumed.
//
// What the library still touched after that, the address sanitizer would see.

#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <barrier>
#include <doctest/doctest.h>
#include <memory>
#include <thread>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

constexpr int rounds_each = 10'000;

// A section that lives until `expected` executions are over.
struct doomed {
  doomed(std::size_t cells, int executions)
      : cs(new critical_section(section_options{.ring_capacity = cells})), expected(executions) {}

  // Part of every body. True for the last one, whose awaiter destroys the section.
  bool is_last() noexcept { return ++done == expected; }

  critical_section* cs;
  const int expected;
  int done = 0;  // bodies only
};

task<bool> by_plain_body(doomed& d) {
  co_return co_await d.cs->execute([&d] { return d.is_last(); });
}

task<bool> by_waiting_body(doomed& d) {
  auto body = [&d]() -> task<bool> {
    co_await yield();
    co_return d.is_last();
  };
  co_return co_await d.cs->execute(body);
}

task<bool> by_guard(doomed& d) {
  auto guard = co_await d.cs->lock();
  const bool last = d.is_last();
  guard.unlock();
  co_return last;
}

task<bool> by_handle(doomed& d) {
  co_return co_await d.cs->submit([&d] { return d.is_last(); });
}

enum kind : unsigned { plain_body, waiting_body, guard, handle, any };

task<bool> by(kind k, doomed& d) {
  switch (k) {
    case plain_body: return by_plain_body(d);
    case waiting_body: return by_waiting_body(d);
    case guard: return by_guard(d);
    default: return by_handle(d);
  }
}

task<> visit(kind k, doomed& d) {
  const bool last = co_await by(k, d);
  if (last) delete d.cs;
}

kind pick(kind k, dice& d) { return k == any ? static_cast<kind>(d.below(any)) : k; }

// Three on a pool, one on this thread.
void rounds_on_a_pool(kind k) {
  thread_pool pool(3);
  dice d(k);
  for (int i = stress::times_scale(rounds_each); i != 0; --i) {
    doomed section(std::size_t{1} << d.below(5), 4);
    async_scope scope({.executor = pool});
    for (int v = 0; v != 3; ++v) scope.spawn(visit(pick(k, d), section));
    sync_wait(visit(pick(k, d), section));
    sync_wait(scope.join());
    REQUIRE(section.done == 4);
  }
}

// Plain threads, which begin each round together.
void rounds_on_threads(kind k, int threads) {
  const int rounds = stress::times_scale(rounds_each) / 4;
  std::unique_ptr<doomed> section;
  int wrong = 0;
  dice d(k);
  std::barrier begin(threads, [&]() noexcept {
    if (section != nullptr && section->done != threads) ++wrong;
    section = std::make_unique<doomed>(std::size_t{1} << d.below(5), threads);
  });
  {
    std::vector<std::jthread> all;
    for (int t = 0; t != threads; ++t) {
      all.emplace_back([&, t] {
        dice mine(static_cast<std::uint32_t>(100 + t));
        for (int i = 0; i != rounds; ++i) {
          begin.arrive_and_wait();
          sync_wait(visit(pick(k, mine), *section));
        }
      });
    }
  }
  CHECK(wrong == 0);
  CHECK(section->done == threads);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("last result: plain bodies") { rounds_on_a_pool(plain_body); }
  TEST_CASE("last result: bodies that wait") { rounds_on_a_pool(waiting_body); }
  TEST_CASE("last result: guards") { rounds_on_a_pool(guard); }
  TEST_CASE("last result: handles") { rounds_on_a_pool(handle); }
  TEST_CASE("last result: all kinds at once") { rounds_on_a_pool(any); }

  TEST_CASE("last result: on plain threads") {
    for (const kind k : {plain_body, waiting_body, guard, handle, any}) {
      CAPTURE(static_cast<unsigned>(k));
      rounds_on_threads(k, 3);
    }
  }

  TEST_CASE("last result: on more threads than cores") { rounds_on_threads(any, 9); }
}
