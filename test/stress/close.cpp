// close.cpp - closing amid requests, from several sides, and destroying right after.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>

using namespace turnstile;
using stress::dice;

namespace {

struct busy_section {
  explicit busy_section(section_options options) : cs(options) {}

  critical_section cs;
  int ran = 0;  // bodies only
  std::atomic<int> accepted{0};
  std::atomic<int> ran_at_close{-1};
  std::atomic<int> wrong{0};
};

task<> ask(busy_section& s, unsigned how) {
  if (how == 0) {
    co_await s.cs.execute([&s] { ++s.ran; });
  } else if (how == 1) {
    auto body = [&s]() -> task<> {
      co_await yield();
      ++s.ran;
    };
    co_await s.cs.execute(body);
  } else if (how == 2) {
    auto guard = co_await s.cs.lock();
    ++s.ran;
  } else if (how == 3) {
    co_await s.cs.submit([&s] { ++s.ran; });
  } else {
    s.cs.post([&s] { ++s.ran; });
  }
}

task<> ask_until_closed(busy_section& s, std::uint32_t who) {
  dice d(who);
  try {
    for (;;) {
      co_await ask(s, d.below(5));
      s.accepted.fetch_add(1);
      co_await yield();
    }
  } catch (const section_closed&) {
  }
}

// Every closer sees the same count: nothing runs after the end.
task<> close(busy_section& s) {
  co_await s.cs.close();
  const int ran = s.ran;
  int seen = -1;
  if (!s.ran_at_close.compare_exchange_strong(seen, ran) && seen != ran) s.wrong.fetch_add(1);
}

task<> close_later(busy_section& s, unsigned yields) {
  for (; yields != 0; --yields) co_await yield();
  co_await close(s);
}

void storm(dice& d, thread_pool& pool) {
  const bool bound = d.one_in(4);
  busy_section s({.executor = bound ? executor_ref(pool) : executor_ref{},
                  .ring_capacity = std::size_t{1} << d.below(5)});
  async_scope scope({.executor = pool});
  for (std::uint32_t v = 0; v != 4; ++v) scope.spawn(ask_until_closed(s, d.below(1000) + v));
  for (int c = 0; c != 3; ++c) scope.spawn(close_later(s, d.below(40)));
  sync_wait(close_later(s, 0));
  sync_wait(scope.join());
  REQUIRE(s.wrong == 0);
  REQUIRE(s.ran == s.ran_at_close);
  REQUIRE(s.ran == s.accepted);
  REQUIRE_THROWS_AS(s.cs.post([] {}), section_closed);
}

// Bodies nobody waits for, then a close that everything waits behind.
void post_and_close(section_options options, int threads, int each) {
  auto cs = std::make_unique<critical_section>(options);
  int ran = 0;
  stress::together(threads, [&](int) {
    for (int i = 0; i != each; ++i) cs->post([&ran] { ++ran; });
  });
  sync_wait(cs->close());
  cs.reset();
  REQUIRE(ran == threads * each);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("close: what was accepted runs, nothing runs afterwards, all closers are resumed") {
    thread_pool pool(3);
    dice d(1);
    for (int i = stress::times_scale(stress::sanitized ? 500 : 2000); i != 0; --i) storm(d, pool);
  }

  TEST_CASE("close: the section is destroyed as soon as it is closed") {
    thread_pool pool(2);
    dice d(2);
    for (int i = stress::times_scale(stress::sanitized ? 200 : 1000); i != 0; --i) {
      const std::size_t cells = std::size_t{1} << d.below(5);
      post_and_close({.ring_capacity = cells}, 3, static_cast<int>(d.below(60)));
      post_and_close({.executor = pool, .ring_capacity = cells}, 3, static_cast<int>(d.below(60)));
    }
  }
}
