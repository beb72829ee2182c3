// allocation.cpp - executions of plain bodies allocate nothing, contended or not.
//
// A program of its own, because it replaces the global operator new.

#include "support/device_awaits.hpp"
#include "support/hold.hpp"
#include "support/own_new.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <cstddef>
#include <doctest/doctest.h>
#include <stop_token>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace turnstile;

namespace {

std::atomic<long> allocations{0};

}  // namespace

void support::before_allocation() { ++allocations; }

namespace {

constexpr int each = 300;

// Made before the marks are set; all of it happens between them but for the two sections at the
// ends.
task<> run_between(critical_section& start, critical_section& cs, critical_section& end, long& n) {
  co_await start.execute([] {});
  for (int i = 0; i != each; ++i) co_await cs.execute([&n] { ++n; });
  co_await end.execute([] {});
}

task<> run_between(critical_section& start, std::tuple<critical_section&, critical_section&> both,
                   critical_section& end, long& n) {
  co_await start.execute([] {});
  for (int i = 0; i != each; ++i) co_await execute(both, [&n] { ++n; });
  co_await end.execute([] {});
}

// Allocations while `coroutines` of them enter `cs`, a section or two, each many times.
template <class Sections>
long allocated_by(executor_ref on, Sections&& cs, std::size_t coroutines, long& n) {
  critical_section start;
  critical_section end;
  section_guard not_yet = support::hold(start);
  section_guard not_over = support::hold(end);
  async_scope scope{{.executor = on}};
  for (std::size_t i = 0; i != coroutines; ++i) scope.spawn(run_between(start, cs, end, n));
  support::wait_for_waiters(start, coroutines);
  const long before = allocations;
  not_yet.unlock();
  support::wait_for_waiters(end, coroutines);
  const long after = allocations;
  not_over.unlock();
  sync_wait(scope.join());
  return after - before;
}

}  // namespace

TEST_SUITE("path") {
  TEST_CASE("allocation: a task that enters an idle section allocates nothing for it") {
    critical_section cs;
    long n = 0;
    long allocated = -1;
    sync_wait([](critical_section& s, long& count, long& out) -> task<> {
      const long before = allocations;
      for (int i = 0; i != 1000; ++i) co_await s.execute([&count] { ++count; });
      out = allocations - before;
    }(cs, n, allocated));
    CHECK(n == 1000);
    CHECK(allocated == 0);
  }

  TEST_CASE("allocation: coroutines on one thread that wait for one another allocate nothing") {
    thread_pool pool{1};
    critical_section cs;
    long n = 0;
    CHECK(allocated_by(pool, cs, 64, n) == 0);
    CHECK(n == 64 * each);
  }

  TEST_CASE(
      "allocation: coroutines on several threads that wait for one another allocate nothing") {
    thread_pool pool{3};
    critical_section cs;
    long n = 0;
    CHECK(allocated_by(pool, cs, 100, n) == 0);
    CHECK(n == 100 * each);
  }

  TEST_CASE("allocation: a section bound to an executor allocates nothing either") {
    thread_pool pool{1};
    thread_pool bound{1};
    critical_section cs{section_options{.executor = bound}};
    long n = 0;
    CHECK(allocated_by(pool, cs, 20, n) == 0);
    CHECK(n == 20 * each);
  }

  TEST_CASE("allocation: entering two sections at once allocates nothing, waiting or not") {
    thread_pool pool{3};
    critical_section a;
    critical_section b;
    long n = 0;
    CHECK(allocated_by(pool, std::tie(a, b), 50, n) == 0);
    CHECK(n == 50 * each);
  }

  TEST_CASE("allocation: threads that wait for one another in place allocate nothing") {
    critical_section cs;
    std::atomic<long> allocated{0};
    long n = 0;
    const auto ask = [&] {
      // The threads are all there when the first of these runs.
      const long before = cs.execute_blocking([] { return allocations.load(); });
      for (int i = 0; i != each; ++i) cs.execute_blocking([&n] { ++n; });
      cs.execute_blocking([&] { allocated += allocations - before; });
    };
    section_guard busy = support::hold(cs);
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t) threads.emplace_back(ask);
    support::wait_for_waiters(cs, 4);
    busy.unlock();
    for (std::thread& t : threads) t.join();
    CHECK(n == 4 * each);
    CHECK(allocated == 0);
  }

  TEST_CASE("allocation: awaiting a device, and executions that only submit, allocate nothing") {
    thread_pool pool{2};
    for (const bool polled : {false, true}) {
      CAPTURE(polled);
      critical_section cs;
      stream s(device::host(), {.executor = pool, .polled = polled});
      CHECK(support::grown_by_awaits(pool, cs, s, each, allocations) == 0);
    }
  }

  TEST_CASE("allocation: results and errors that are no objects of their own cost nothing") {
    critical_section cs;
    long allocated = -1;
    int sum = 0;
    sync_wait([](critical_section& s, int& total, long& out) -> task<> {
      const long before = allocations;
      for (int i = 0; i != 100; ++i) {
        total += co_await s.execute([i] { return i; });
        total += s.try_execute([] { return 1; }).value();
      }
      out = allocations - before;
    }(cs, sum, allocated));
    CHECK(sum == 5050);
    CHECK(allocated == 0);
  }

  TEST_CASE("allocation: frames come from those that the thread has freed") {
    const auto nest = [](auto& self, int depth) -> task<int> {
      if (depth == 0) co_return 0;
      co_return 1 + co_await self(self, depth - 1);
    };
    CHECK(sync_wait(nest(nest, each)) == each);
    const long before = allocations;
    CHECK(sync_wait(nest(nest, 50)) == 50);
    const long allocated = allocations - before;
    CHECK(allocated == (TURNSTILE_RECYCLES_FRAMES ? 0 : 52));
  }

  TEST_CASE("allocation: a guard has the frame of one that has ended on the thread") {
    critical_section a{"a section whose name is long"};
    critical_section b;
    long for_one = -1;
    long for_two = -1;
    sync_wait([](critical_section& s, critical_section& t, long& one, long& two) -> task<> {
      static_cast<void>(co_await s.lock());
      long before = allocations;
      for (int i = 0; i != each; ++i) static_cast<void>(co_await s.lock());
      one = allocations - before;
      before = allocations;
      for (int i = 0; i != each; ++i) {
        const section_guard g = co_await t.lock();
        const section_guard inner = co_await s.lock();
      }
      two = allocations - before;
    }(a, b, for_one, for_two));
    CHECK(for_one == (TURNSTILE_RECYCLES_FRAMES ? 0 : 2 * each));
    CHECK(for_two == (TURNSTILE_RECYCLES_FRAMES ? each - 1 : 3 * each));  // the first finds one
  }

  TEST_CASE("allocation: of freed frames no more are kept than there is room for") {
    detail::spare_frames spare;
    constexpr std::size_t size = 1000;
    constexpr std::size_t room = detail::spare_frames::most_bytes / 1024;
    std::vector<void*> frames(2 * room);
    for (void*& f : frames) f = spare.take(size);
    for (void* const f : frames) spare.give(f, size);
    const long before = allocations;
    for (void*& f : frames) f = spare.take(size);
    CHECK(allocations - before == room);
    for (void* const f : frames) spare.give(f, size);
    spare.give_back_all();
    void* const last = spare.take(size);
    CHECK(allocations - before == room + 1);
    spare.give(last, size);
  }

  TEST_CASE("allocation: a section allocates nothing unless it has a name or many cells") {
    const long before = allocations;
    {
      critical_section plain;
      critical_section small{section_options{.ring_capacity = 8}};
      CHECK(plain.try_execute([] {}));
    }
    CHECK(allocations - before == 0);
    const critical_section named("orders");
    CHECK(allocations - before == 1);
  }

  TEST_CASE("allocation: a wait that can be withdrawn takes the memory of the one before it") {
    manual_executor here;
    critical_section cs;
    const std::stop_source stop;
    const auto waits = [&](const execute_options& how) -> task<> {
      co_await cs.execute([] {}, how);
    };
    const auto allocated = [&](const execute_options& how) {
      const long before = allocations;
      async_scope scope{{.executor = here}};
      section_guard busy = std::move(cs.try_lock().value());
      busy.detach();
      scope.spawn(waits(how));
      here.run();
      CHECK(cs.statistics().waiters == 1);
      busy.unlock();
      here.run();
      sync_wait(scope.join());
      return allocations - before;
    };
    allocated({});
    const long plain = allocated({});
    const long first = allocated({.stop = stop.get_token()});
    CHECK(first > plain);
#if !defined(TURNSTILE_ADDRESS_SANITIZER)
    CHECK(allocated({.stop = stop.get_token()}) == plain);
#endif
  }
}
