// fiber.cpp - what a fiber gives back, where it runs, and how it waits.

#include "support/dies.hpp"
#include "support/enter_stopped.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::enter_stopped;
using support::gate;
using support::loop;

namespace {

// Awaits `a` that many calls below.
template <class A>
auto await_below(int calls, A&& a) {
  if (calls == 0) return turnstile::await(std::forward<A>(a));
  return await_below(calls - 1, std::forward<A>(a));
}

task<int> twice(int n) {
  co_await yield();
  co_return 2 * n;
}

template <class R>
R ended(loop& on, fiber<R> f) {
  on.run();
  REQUIRE(f.ready());
  return sync_wait(std::move(f));
}

struct counts_its_copies {
  counts_its_copies() = default;
  counts_its_copies(counts_its_copies&&) noexcept = default;
  int operator()() && { return 7; }
  std::unique_ptr<int> only = std::make_unique<int>(1);
};

// An address in the calling function's frame, near enough.
std::uintptr_t stack_here() { return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)); }

}  // namespace

TEST_SUITE("fiber") {
  TEST_CASE("fiber: it starts on its executor and gives back what its function returns") {
    loop on;
    bool ran = false;
    auto f = spawn_fiber(on, [&] {
      ran = on.here() && in_fiber();
      return 5;
    });
    CHECK_FALSE(ran);
    CHECK_FALSE(f.ready());
    CHECK(ended(on, std::move(f)) == 5);
    CHECK(ran);
    CHECK_FALSE(in_fiber());
    static_assert(!std::is_copy_constructible_v<fiber<int>>);
    static_assert(std::is_nothrow_move_constructible_v<fiber<int>>);
  }

  TEST_CASE("fiber: nothing, a reference, what can only be moved") {
    loop on;
    int x = 1;
    ended(on, spawn_fiber(on, [] {}));
    CHECK(&ended(on, spawn_fiber(on, [&]() -> int& { return x; })) == &x);
    CHECK(*ended(on, spawn_fiber(on, [] { return std::make_unique<int>(3); })) == 3);
    CHECK(ended(on, spawn_fiber(on, counts_its_copies{})) == 7);
  }

  TEST_CASE("fiber: an awaiter may give what is its own") {
    struct gives {
      struct awaiter {
        std::string text;
        bool await_ready() const noexcept { return true; }
        void await_suspend(std::coroutine_handle<>) const noexcept {}
        std::string&& await_resume() noexcept { return std::move(text); }
      };
      awaiter operator co_await() && { return {std::string(100, 'x')}; }
    };
    loop on;
    const std::string text =
        ended(on, spawn_fiber(on, [] { return std::string(turnstile::await(gives())); }));
    CHECK(text == std::string(100, 'x'));
    int n = 0;
    struct refers {
      int* to;
      bool await_ready() const noexcept { return true; }
      void await_suspend(std::coroutine_handle<>) const noexcept {}
      int& await_resume() const noexcept { return *to; }
    };
    CHECK(&ended(on, spawn_fiber(on, [&]() -> int& { return turnstile::await(refers{&n}); })) ==
          &n);
  }

  TEST_CASE("fiber: what its function throws reaches who awaits it") {
    loop on;
    auto f = spawn_fiber(on, [] { throw std::runtime_error("text"); });
    on.run();
    CHECK_THROWS_WITH(sync_wait(std::move(f)), "text");
  }

  TEST_CASE("fiber: it waits at any depth, and its executor does other work meanwhile") {
    loop on;
    gate g;
    std::vector<int> list;
    auto f = spawn_fiber(on, [&] {
      list.push_back(1);
      await_below(20, g.passed());
      list.push_back(3);
    });
    on.run();
    list.push_back(2);
    CHECK_FALSE(f.ready());
    g.open();
    CHECK(list == std::vector<int>{1, 2, 3});
    ended(on, std::move(f));
  }

  TEST_CASE("fiber: what the library's awaitables give, and throw") {
    thread_pool pool(2);
    critical_section cs{"cs"};
    auto f = pool.spawn_fiber([&] {
      int sum = turnstile::await(twice(1));
      sum += turnstile::await(cs.execute([] { return 10; }));
      sum += turnstile::await(cs.submit([] { return 100; }));
      sum += std::get<0>(turnstile::await(when_all(twice(500), sleep_for(1us))));
      section_guard g = turnstile::await(cs.lock());
      CHECK_THROWS_AS(turnstile::await(cs.execute([] {})), reentry_error);
      CHECK_THROWS_AS(turnstile::await(timeout(sleep_for(1h), 1us)), deadline_exceeded);
      return sum;
    });
    CHECK(sync_wait(std::move(f)) == 1112);
    CHECK(cs.statistics().executions == 3);
  }

  TEST_CASE("fiber: an error that is thrown when the wait begins") {
    loop on;
    critical_section a{"a"};
    const section_guard busy = support::hold(a);
    auto f = spawn_fiber(on, [&] {
      critical_section b{"b"};
      section_guard mine = turnstile::await(b.lock());
      auto inside = b.submit([] {});
      CHECK_THROWS_AS(turnstile::await(inside), deadlock_error);
      mine.unlock();
      turnstile::await(inside);
    });
    ended(on, std::move(f));
  }

  TEST_CASE("fiber: it goes on where it was, also from a thread that knows nothing of it") {
    thread_pool pool(1);
    critical_section cs;
    section_guard busy = support::hold(cs);
    auto f = pool.spawn_fiber([&] {
      const std::thread::id home = std::this_thread::get_id();
      turnstile::await(cs.execute([] {}));
      return std::this_thread::get_id() == home;
    });
    support::wait_for_waiters(cs, 1);
    busy.unlock();
    CHECK(sync_wait(std::move(f)));
  }

  TEST_CASE(
      "fiber: after an awaitable that knows nothing of executors it goes on where that resumes") {
    thread_pool pool(1);
    gate g;
    auto f = pool.spawn_fiber([&] {
      turnstile::await(g.passed());
      return std::this_thread::get_id();
    });
    while (g.waiting() != 1) std::this_thread::yield();
    g.open();
    CHECK(sync_wait(std::move(f)) == std::this_thread::get_id());
  }

  TEST_CASE("fiber: a section's chain goes along from thread to thread") {
    thread_pool one(1);
    thread_pool other(1);
    critical_section cs{"cs"};
    auto f = one.spawn_fiber([&] {
      const section_guard mine = turnstile::await(cs.lock());
      turnstile::await(schedule_on(other, twice(1)));
      CHECK_THROWS_AS(turnstile::await(cs.execute([] {})), reentry_error);
    });
    sync_wait(std::move(f));
    CHECK_NOTHROW(sync_wait(cs.execute([] {})));
  }

  TEST_CASE("fiber: its chain begins empty") {
    loop on;
    critical_section cs{"cs"};
    int ran = 0;
    const auto body = [&] {
      spawn_fiber(on, [&] { turnstile::await(cs.execute([&] { ++ran; })); });
      on.run();
      CHECK(ran == 0);
    };
    sync_wait(cs.execute(body));
    on.run();
    CHECK(ran == 1);
  }

  TEST_CASE("fiber: what has resumed it goes on as nobody when it has ended") {
    struct in_place_then_asks {
      bool* may_stop;
      bool await_ready() const noexcept { return false; }
      void await_suspend(std::coroutine_handle<> h) const {
        bool* const answer = may_stop;
        h.resume();  // this may be gone
        const auto ask = [](bool& possible) -> support::foreign {
          const std::stop_token token = co_await current_stop_token();
          possible = token.stop_possible();
        };
        CHECK(ask(*answer).done());
      }
      void await_resume() const noexcept {}
    };
    loop on;
    bool may_stop_first = true;
    bool may_stop = true;
    bool twice = false;
    SUBCASE("once") {}
    SUBCASE("for the second time") { twice = true; }
    const auto code = [&] {
      if (twice) turnstile::await(in_place_then_asks{&may_stop_first});
      turnstile::await(in_place_then_asks{&may_stop});
    };
    auto f = spawn_fiber(on, code);
    on.run();
    sync_wait(std::move(f));
    CHECK_FALSE(may_stop);
  }

  // A loop that stands in for tail calls lies on its stack, and on top of it what waits.
  TEST_CASE("fiber: loops of coroutines on its stack go along to another thread") {
    loop on;
    critical_section cs;
    delegated_mutex m{cs};
    const auto locks = [&]() -> task<> {
      const std::scoped_lock lock(m);
      co_return;
    };
    const auto all = [&]() -> support::foreign { co_await locks(); };
    section_guard busy = support::hold(cs);
    const auto code = [&] {
      CHECK(all().done());
      CHECK(detail::here().transfers == nullptr);
    };
    auto f = spawn_fiber(on, code, {.stack_size = std::size_t{1} << 20});
    std::thread([&] {
      on.run();
      CHECK(detail::here().transfers == nullptr);
    }).join();
    busy.unlock();
    on.run();
    sync_wait(std::move(f));
  }

  TEST_CASE("fiber: a guard that it still has at its end is its awaiter's") {
    loop on;
    critical_section cs{"cs"};
    const auto take = [&] { return turnstile::await(cs.lock()); };
    {
      const section_guard threads_own = ended(on, spawn_fiber(on, take));
      CHECK_THROWS_AS(sync_wait(enter_stopped(cs)), reentry_error);
    }
    async_scope scope{{.executor = on}};
    scope.spawn([](critical_section& s, fiber<section_guard> f) -> task<> {
      const section_guard mine = co_await std::move(f);
      co_await enter_stopped(s);
    }(cs, spawn_fiber(on, take)));
    on.run();
    CHECK_THROWS_AS(sync_wait(scope.join()), reentry_error);
    CHECK(cs.try_execute([] {}));
  }

  TEST_CASE("fiber: a guard that it still has at its end is nobody's if nobody awaits it") {
    loop on;
    critical_section cs{"cs"};
    section_guard kept;
    {
      const auto f = spawn_fiber(on, [&] { kept = turnstile::await(cs.lock()); });
      on.run();
      CHECK(f.ready());
    }
    CHECK_THROWS_AS(sync_wait(enter_stopped(cs)), operation_cancelled);
    kept.unlock();
    CHECK(cs.try_execute([] {}));
  }

  TEST_CASE("fiber: to wait for a fiber that wants what the waiter holds is refused") {
    loop on;
    critical_section cs{"cs"};
    auto holds = spawn_fiber(on, [&] {
      const section_guard mine = turnstile::await(cs.lock());
      auto wants = spawn_fiber(on, [&] { turnstile::await(cs.execute([] {})); }, {.name = "wants"});
      turnstile::await(yield());
      try {
        turnstile::await(std::move(wants));
        FAIL("it would wait for ever");
      } catch (const deadlock_error& e) {
        CHECK(std::string(e.what()).find("fiber by wants") != std::string::npos);
      }
    });
    ended(on, std::move(holds));
  }

  TEST_CASE("fiber: two that want what the other one has") {
    thread_pool pool(2);
    critical_section a{"a"};
    critical_section b{"b"};
    std::atomic<int> inside{0};
    std::atomic<int> refused{0};
    const auto cross = [&](critical_section& first, critical_section& second) {
      const section_guard one = turnstile::await(first.lock());
      ++inside;
      while (inside != 2) turnstile::await(yield());
      try {
        turnstile::await(second.lock());
      } catch (const deadlock_error&) {
        ++refused;
      }
    };
    auto f = pool.spawn_fiber([&] { cross(a, b); });
    auto g = pool.spawn_fiber([&] { cross(b, a); });
    sync_wait(when_all(std::move(f), std::move(g)));
    CHECK(refused >= 1);
  }

  TEST_CASE("fiber: a body that runs on its stack is not part of it, and nor is a coroutine") {
    loop on;
    critical_section cs;
    auto f = spawn_fiber(on, [&] {
      CHECK_FALSE(turnstile::await(cs.execute([] { return in_fiber(); })));
      CHECK(in_fiber());
      bool inside = true;
      CHECK(cs.try_execute([&] { inside = in_fiber(); }));
      CHECK_FALSE(inside);
      const auto child = [&]() -> task<> {
        inside = in_fiber();
        co_return;
      };
      inside = true;
      sync_wait(child());
      CHECK_FALSE(inside);
      inside = true;
      async_scope scope;
      scope.spawn(child());
      CHECK_FALSE(inside);
      CHECK(in_fiber());
      turnstile::await(scope.join());
    });
    ended(on, std::move(f));
  }

  TEST_CASE("fiber: nor is what an executor runs there, and what a variable waits for") {
    loop on;
    variable<int> v(0);
    auto f = spawn_fiber(on, [&] {
      bool inside = true;
      const auto child = [&]() -> task<> {
        inside = in_fiber();
        co_return;
      };
      manual_executor by_hand;
      async_scope scope{{.executor = by_hand}};
      scope.spawn(child());
      by_hand.run();
      CHECK_FALSE(inside);
      turnstile::await(scope.join());
      inside = true;
      ordered_scope ordered;
      ordered.add(writes(v), child);
      CHECK_FALSE(inside);
      turnstile::await(ordered.join());
      CHECK(in_fiber());
    });
    ended(on, std::move(f));
  }

  TEST_CASE("fiber: predicates of others are asked on the thread's stack and not on its own") {
    loop on;
    critical_section cs;
    std::uintptr_t others = 0;
    bool may_run = false;
    async_scope scope{{.executor = on}};
    auto f = spawn_fiber(on, [&] {
      const std::uintptr_t own = stack_here();
      const auto predicate = [&] {
        others = in_fiber() ? 0 : stack_here();
        return may_run;
      };
      const auto ask = [&]() -> task<> { co_await cs.execute_when(predicate, [] {}); };
      scope.spawn(ask());
      while (others == 0) turnstile::await(yield());
      others = 0;
      {
        section_guard mine = turnstile::await(cs.lock());
        may_run = true;
      }
      CHECK(others != 0);
      CHECK(std::max(own, others) - std::min(own, others) > fiber_options{}.stack_size);
      turnstile::await(scope.join());
    });
    ended(on, std::move(f));
  }

  TEST_CASE(
      "fiber: what makes an awaiter is its own code, and what asks whether that is ready is not") {
    struct awaiter {
      bool await_ready() const { return !in_fiber(); }
      void await_suspend(std::coroutine_handle<>) const {}
      int await_resume() const { return made_here; }
      int made_here;
    };
    struct made_by_a_wait {
      awaiter operator co_await() const { return {turnstile::await(twice(4))}; }
    };
    loop on;
    CHECK(ended(on, spawn_fiber(on, [] { return turnstile::await(made_by_a_wait{}); })) == 8);
  }

  TEST_CASE("fiber: it serves others on the thread's stack and not on its own") {
    loop on;
    critical_section cs;
    std::uintptr_t others = 0;
    async_scope scope{{.executor = on}};
    auto f = spawn_fiber(on, [&] {
      const std::uintptr_t own = stack_here();
      section_guard mine = turnstile::await(cs.lock());
      const auto ask = [&]() -> task<> { co_await cs.execute([&] { others = stack_here(); }); };
      scope.spawn(ask());
      while (cs.statistics().waiters == 0) turnstile::await(yield());
      mine.unlock();
      CHECK(others != 0);
      CHECK(std::max(own, others) - std::min(own, others) > fiber_options{}.stack_size);
      turnstile::await(scope.join());
    });
    ended(on, std::move(f));
  }

  TEST_CASE("fiber: a stop ends what it waits for") {
    loop on;
    critical_section cs{"cs"};
    section_guard busy = support::hold(cs);
    SUBCASE("in a section's line, if it is stoppable") {
      auto f = spawn_fiber(on, [&] { turnstile::await(cs.execute([] {})); }, {.stoppable = true});
      on.run();
      f.request_stop();
      on.run();
      CHECK(f.ready());
      CHECK_THROWS_AS(sync_wait(std::move(f)), operation_cancelled);
      busy.unlock();
    }
    SUBCASE("in a section's line, when its turn comes") {
      bool ran = false;
      auto f = spawn_fiber(on, [&] { turnstile::await(cs.execute([&] { ran = true; })); });
      on.run();
      f.request_stop();
      on.run();
      CHECK_FALSE(f.ready());
      busy.unlock();
      on.run();
      CHECK_THROWS_AS(sync_wait(std::move(f)), operation_cancelled);
      CHECK_FALSE(ran);
    }
    SUBCASE("asleep") {
      auto f = spawn_fiber(on, [&] { turnstile::await(sleep_for(1h)); });
      on.run();
      f.request_stop();
      on.run();
      CHECK_THROWS_AS(sync_wait(std::move(f)), operation_cancelled);
    }
    SUBCASE("it can be asked for") {
      auto f = spawn_fiber(on, [&] {
        const std::stop_token stop = turnstile::await(current_stop_token());
        while (!stop.stop_requested()) turnstile::await(yield());
        return 3;
      });
      on.run_one();
      f.request_stop();
      CHECK(ended(on, std::move(f)) == 3);
    }
  }

  TEST_CASE("fiber: a stop of who awaits it is passed on, and the fiber's end awaited") {
    thread_pool pool(2);
    bool cleaned_up = false;
    const auto wait_for_either = [&]() -> task<std::size_t> {
      auto sleeper = pool.spawn_fiber([&] {
        try {
          turnstile::await(sleep_for(1h));
        } catch (const operation_cancelled&) {
          cleaned_up = true;
        }
      });
      auto got = co_await when_any(std::move(sleeper), sleep_for(1us));
      co_return got.index;
    };
    CHECK(sync_wait(wait_for_either()) == 1);
    CHECK(cleaned_up);
  }

  TEST_CASE("fiber: one that is let go of goes on, and its error is reported") {
    loop on;
    support::unobserved errors;
    bool ran = false;
    spawn_fiber(on, [&] { ran = true; });
    spawn_fiber(on, [] { throw std::runtime_error("nobody waits"); });
    {
      auto stopped = spawn_fiber(on, [] { turnstile::await(sleep_for(1h)); });
      stopped.request_stop();
    }
    {
      auto awaited_too_late = spawn_fiber(on, [] { throw std::runtime_error("nobody cares"); });
    }
    on.run();
    CHECK(ran);
    CHECK(errors.seen().size() == 2);
  }

  TEST_CASE("fiber: stacks of the size that is asked for") {
    loop on;
    const auto fill = [] {
      volatile char much[600 * 1024];
      much[0] = 1;
      turnstile::await(yield());
      return much[0] == 1;
    };
    CHECK(ended(on, spawn_fiber(on, fill, {.stack_size = std::size_t{1} << 20})));
    CHECK(ended(on, spawn_fiber(on, [] { return 1; }, {.stack_size = 1})) == 1);
    CHECK_THROWS_AS(static_cast<void>(spawn_fiber({}, [] {})), std::invalid_argument);
    CHECK_THROWS_AS(static_cast<void>(spawn_fiber(on, [] {}, {.stack_size = SIZE_MAX})),
                    std::bad_alloc);
  }

  TEST_CASE("fiber: exceptions belong to the fiber and not to the thread") {
    loop on;
    std::vector<int> order;
    const auto throw_and_wait = [&](int n) {
      struct waits_when_unwound {
        std::vector<int>& order;
        int n;
        int uncaught = std::uncaught_exceptions();
        ~waits_when_unwound() {
          order.push_back(std::uncaught_exceptions() - uncaught);
          turnstile::await(yield());
          order.push_back(std::uncaught_exceptions() - uncaught);
        }
      };
      try {
        const waits_when_unwound w{order, n};
        throw n;
      } catch (int got) {
        CHECK(got == n);
      }
      CHECK(std::uncaught_exceptions() == 0);
    };
    auto f = spawn_fiber(on, [&] { throw_and_wait(1); });
    auto g = spawn_fiber(on, [&] { throw_and_wait(2); });
    on.run();
    sync_wait(when_all(std::move(f), std::move(g)));
    CHECK(order == std::vector<int>(4, 1));
  }

  TEST_CASE("fiber: ten thousand of them") {
    thread_pool pool(2);
    critical_section cs;
    std::size_t n = 0;
    std::vector<fiber<void>> all;
    section_guard busy = support::hold(cs);
    for (int i = 0; i != 10'000; ++i) {
      all.push_back(pool.spawn_fiber([&] { turnstile::await(cs.execute([&] { ++n; })); }));
    }
    busy.unlock();
    for (fiber<void>& f : all) sync_wait(std::move(f));
    CHECK(n == all.size());
  }

  TEST_CASE("fiber: what breaks the contract says so in one line") {
    SUBCASE("await outside a fiber") {
      support::check_dies([] { turnstile::await(yield()); },
                          "turnstile::await is called outside a fiber");
    }
    SUBCASE("await in a body that runs on a fiber's stack") {
      const auto child = [] {
        loop on;
        critical_section cs;
        auto f = spawn_fiber(
            on, [&] { turnstile::await(cs.execute([] { turnstile::await(yield()); })); });
        on.run();
      };
      support::check_dies(child, "in a body or a coroutine");
    }
    SUBCASE("a wait while a variable is changed") {
      const auto child = [] {
        loop on;
        variable<std::string> v{"text"};
        auto f =
            spawn_fiber(on, [&] { v.update([](std::string&) { turnstile::await(yield()); }); });
        on.run();
      };
      support::check_dies(child, "while it changes a variable");
    }
    SUBCASE("a fiber that was moved from") {
      const auto child = [] {
        loop on;
        auto f = spawn_fiber(on, [] {});
        auto g = std::move(f);
        static_cast<void>(f.ready());
      };
      support::check_dies(child, "a fiber is used that was moved from");
    }
  }
}
