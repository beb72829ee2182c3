// executor_ref.cpp - references to executors of any type, the concept, and jobs.

#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <cstddef>
#include <doctest/doctest.h>
#include <type_traits>
#include <vector>

using namespace turnstile;
using support::loop;

namespace {

struct note : job {
  note(std::vector<int>& l, int i) noexcept : job(&write), list(&l), id(i) {}
  static void write(job& j) noexcept {
    note& self = static_cast<note&>(j);
    self.list->push_back(self.id);
  }
  std::vector<int>* list;
  int id;
};

// Takes chains in one go, and counts how often.
class chain_executor {
 public:
  void post(job& j) noexcept { jobs_.post(j); }
  void post(job* first, job* last, std::size_t n) noexcept {
    ++chains;
    jobs_.post(first, last, n);
  }
  std::size_t run() { return jobs_.run(); }

  int chains = 0;

 private:
  manual_executor jobs_;
};

// Takes chains, but may throw then.
struct careless_executor : loop {
  using loop::post;
  void post(job*, job*, std::size_t) { ++chains; }

  int chains = 0;
};

// Runs what is posted at once.
struct inline_executor {
  void post(job& j) noexcept { j.run(); }
};

struct throwing_executor {
  void post(job&) {}
};
struct no_executor {};
struct const_executor {
  void post(job& j) const noexcept { j.run(); }
};

static_assert(executor<loop>);
static_assert(executor<chain_executor>);
static_assert(executor<inline_executor>);
static_assert(executor<thread_pool>);
static_assert(executor<manual_executor>);
static_assert(!executor<throwing_executor>);
static_assert(!executor<no_executor>);
static_assert(std::is_convertible_v<loop&, executor_ref>);
static_assert(!std::is_convertible_v<loop, executor_ref>);
static_assert(!std::is_convertible_v<const loop&, executor_ref>);
static_assert(std::is_convertible_v<const const_executor&, executor_ref>);
static_assert(!std::is_constructible_v<executor_ref, const const_executor>);
static_assert(!std::is_constructible_v<executor_ref, const_executor>);
static_assert(std::is_trivially_copyable_v<executor_ref>);

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("executor_ref: one object is the same executor, const or not") {
    const_executor e;
    const const_executor& same = e;
    CHECK(executor_ref(e) == executor_ref(same));
    CHECK(sync_wait(schedule_on(same, []() -> task<int> { co_return 1; }())) == 1);
  }

  TEST_CASE("executor_ref: is empty by default, and equal to what refers to the same executor") {
    loop a;
    loop b;
    const executor_ref none;
    const executor_ref to_a = a;
    const executor_ref also_a = a;
    const executor_ref to_b = b;
    CHECK_FALSE(static_cast<bool>(none));
    CHECK(static_cast<bool>(to_a));
    CHECK(to_a == also_a);
    CHECK(to_a != to_b);
    CHECK(to_a != none);
    CHECK(none == executor_ref{});
  }

  TEST_CASE("executor_ref: posts one job, which runs once") {
    loop l;
    std::vector<int> ran;
    note n(ran, 1);
    executor_ref(l).post(n);
    CHECK(ran.empty());
    CHECK(l.run() == 1);
    CHECK(ran == std::vector<int>{1});
  }

  TEST_CASE(
      "executor_ref: gives a chain in one go to executors that take chains, else one by one") {
    std::vector<int> ran;
    note c(ran, 3);
    note b(ran, 2);
    note a(ran, 1);
    const auto link = [&] {
      a.next = &b;
      b.next = &c;
      c.next = nullptr;
    };
    chain_executor chains;
    link();
    executor_ref(chains).post(&a, &c, 3);
    CHECK(chains.run() == 3);
    CHECK(chains.chains == 1);
    loop one_by_one;
    link();
    executor_ref(one_by_one).post(&a, &c, 3);
    CHECK(one_by_one.run() == 3);
    CHECK(ran == std::vector<int>{1, 2, 3, 1, 2, 3});
  }

  TEST_CASE("executor_ref: gives no chain to an executor that may throw then") {
    careless_executor careless;
    std::vector<int> ran;
    note b(ran, 2);
    note a(ran, 1);
    a.next = &b;
    b.next = nullptr;
    executor_ref(careless).post(&a, &b, 2);
    CHECK(careless.run() == 2);
    CHECK(careless.chains == 0);
    CHECK(ran == std::vector<int>{1, 2});
  }

  TEST_CASE("executor_ref: an executor of our own serves sections, tasks and scopes") {
    chain_executor mine;
    critical_section cs;
    int n = 0;
    async_scope scope{{.executor = mine}};
    for (int i = 0; i != 10; ++i) {
      scope.spawn([](critical_section& s, int& count) -> task<> {
        for (int k = 0; k != 3; ++k) {
          co_await s.execute([&] { ++count; });
          co_await yield();
        }
      }(cs, n));
    }
    CHECK(n == 0);
    mine.run();
    sync_wait(scope.join());
    CHECK(n == 30);
  }

  TEST_CASE("executor_ref: an executor that runs a job inside post is one too") {
    inline_executor at_once;
    critical_section cs{section_options{.executor = at_once}};
    CHECK(sync_wait(cs.execute([] { return 3; })) == 3);
    CHECK(sync_wait(cs.submit([] { return 4; })) == 4);
    CHECK(sync_wait(schedule_on(at_once, cs.execute([] { return 5; }))) == 5);
  }

  TEST_CASE("job: one without work may be the stub of an executor's own queue") {
    job stub;
    stub.next = nullptr;
    CHECK(stub.next == nullptr);
  }

  TEST_CASE("job: a thread inside run counts as running on the job's executor") {
    loop outer;
    loop inner;
    std::vector<bool> seen;
    async_scope scope{{.executor = outer}};
    scope.spawn([](loop& o, loop& i, std::vector<bool>& s) -> task<> {
      // Nested on this thread: the inner loop is run from a job of the outer one.
      async_scope nested{{.executor = i}};
      nested.spawn([](loop& at, std::vector<bool>& into) -> task<> {
        co_await yield();
        into.push_back(at.here());
      }(i, s));
      i.run();
      co_await nested.join();
      co_await yield();
      s.push_back(o.here());
    }(outer, inner, seen));
    outer.run();
    sync_wait(scope.join());
    CHECK(seen == std::vector<bool>{true, true});
  }
}
