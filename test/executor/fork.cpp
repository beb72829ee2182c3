// fork.cpp - what runs beside what forks it.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using support::counted;
using support::stack_meter;

namespace {

class order {
 public:
  void add(int id) {
    const std::lock_guard lock(mutex_);
    ids_.push_back(id);
  }
  std::vector<int> ids() const {
    const std::lock_guard lock(mutex_);
    return ids_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<int> ids_;
};

task<> note(order& o, int id) {
  o.add(id);
  co_return;
}

task<> note_and_count(order& o, int id, std::latch& ran) {
  o.add(id);
  ran.count_down();
  co_return;
}

// Keeps its worker.
task<> wait_in_place(std::latch& until) {
  until.wait();
  co_return;
}

task<int> number(int n) { co_return n; }

task<> fail(const char* text) {
  throw std::runtime_error(text);
  co_return;
}

task<> raise(std::atomic<bool>& flag) {
  flag = true;
  co_return;
}

task<> three(order& o) {
  co_await when_all(fork(note(o, 1)), fork(note(o, 2)), fork(note(o, 3)));
  o.add(4);
}

task<> one_beside(order& o) { co_await when_all(fork(note(o, 1)), note(o, 2)); }

// A tree as fork makes them: of each two children one is forked.
task<long> tree(int depth) {
  if (depth == 0) co_return 1;
  const auto [one, two] = co_await when_all(fork(tree(depth - 1)), tree(depth - 1));
  co_return one + two;
}

task<long> wide_tree(int depth) {
  if (depth == 0) co_return 1;
  std::vector<forked<task<long>>> children;
  for (int i = 0; i != 7; ++i) children.push_back(fork(wide_tree(depth - 1)));
  long sum = 0;
  for (const long n : co_await when_all(std::move(children))) sum += n;
  co_return sum;
}

task<> many(std::atomic<int>& n, int how_many) {
  const auto add = [](std::atomic<int>& to) -> task<> {
    ++to;
    co_return;
  };
  std::vector<forked<task<>>> children;
  for (int i = 0; i != how_many; ++i) children.push_back(fork(add(n)));
  co_await when_all(std::move(children));
}

// Forks for ever, so to speak.
task<> fork_until(std::atomic<bool>& over) {
  while (!over) co_await fork(number(0));
}

task<> beside_endless_forks(std::atomic<bool>& over) {
  co_await when_all(fork(raise(over)), fork_until(over));
}

task<int> wait_in_line(critical_section& cs) {
  co_await cs.execute([] {});
  co_return 0;
}

task<> ask_again(critical_section& cs) {
  co_await cs.execute([] {});
}

}  // namespace

TEST_SUITE("executor") {
  TEST_CASE("fork: a worker goes on with what is not forked, and takes the newest fork first") {
    thread_pool pool{1};
    order o;
    sync_wait(schedule_on(pool, three(o)));
    CHECK(o.ids() == std::vector<int>{3, 2, 1, 4});
    order other;
    sync_wait(schedule_on(pool, one_beside(other)));
    CHECK(other.ids() == std::vector<int>{2, 1});
  }

  TEST_CASE("fork: an idle worker takes the oldest one") {
    thread_pool pool{2};
    for (int round = 0; round != 20; ++round) {
      order o;
      std::latch ran{3};
      const auto forks = [](order& to, std::latch& all) -> task<> {
        co_await when_all(fork(note_and_count(to, 1, all)), fork(note_and_count(to, 2, all)),
                          fork(note_and_count(to, 3, all)), wait_in_place(all));
      };
      sync_wait(schedule_on(pool, forks(o, ran)));
      CHECK(o.ids() == std::vector<int>{1, 2, 3});
    }
  }

  TEST_CASE("fork: goes before what its worker has posted, which keeps its order") {
    thread_pool pool{1};
    order o;
    async_scope scope{{.executor = pool}};
    const auto mixed = [](order& to, async_scope& s) -> task<> {
      s.spawn(note(to, 1));
      s.spawn(note(to, 2));
      co_await when_all(fork(note(to, 3)), fork(note(to, 4)));
      to.add(5);
    };
    sync_wait(schedule_on(pool, mixed(o, scope)));
    sync_wait(scope.join());
    CHECK(o.ids() == std::vector<int>{4, 3, 5, 1, 2});
  }

  TEST_CASE("fork: more than a worker has room for all run") {
    for (const unsigned workers : {1u, 3u}) {
      thread_pool pool{workers};
      std::atomic<int> n{0};
      sync_wait(schedule_on(pool, many(n, 5000)));
      CHECK(n == 5000);
    }
  }

  TEST_CASE("fork: trees give what they are, on one worker and on several") {
    for (const unsigned workers : {1u, 2u, 4u}) {
      thread_pool pool{workers};
      CHECK(sync_wait(schedule_on(pool, tree(13))) == 8192);
      CHECK(sync_wait(schedule_on(pool, wide_tree(4))) == 2401);
    }
  }

  TEST_CASE("fork: without an executor it runs at once") {
    order o;
    sync_wait(three(o));
    CHECK(o.ids() == std::vector<int>{1, 2, 3, 4});
    CHECK(sync_wait(fork(number(5))) == 5);
  }

  TEST_CASE("fork: on another executor it is posted") {
    manual_executor jobs;
    order o;
    async_scope scope{{.executor = jobs}};
    scope.spawn(one_beside(o));
    CHECK(jobs.run_one());
    CHECK(o.ids() == std::vector<int>{2});
    CHECK(jobs.pending() == 1);
    jobs.run();
    CHECK(o.ids() == std::vector<int>{2, 1});
    sync_wait(scope.join());
  }

  TEST_CASE("fork: may be awaited alone, spawned, and given to whatever takes an awaitable") {
    thread_pool pool{2};
    const auto alone = []() -> task<int> { co_return co_await fork(number(6)); };
    CHECK(sync_wait(schedule_on(pool, alone())) == 6);
    CHECK(sync_wait(schedule_on(pool, fork(number(7)))) == 7);
    CHECK(sync_wait(schedule_on(pool, fork(fork(number(8))))) == 8);
    CHECK(sync_wait(schedule_on(pool, timeout(fork(number(9)), std::chrono::hours(1)))) == 9);
    CHECK(sync_wait(schedule_on(pool, when_any(fork(number(10))))).index == 0);
    std::atomic<bool> ran{false};
    async_scope scope{{.executor = pool}};
    scope.spawn(fork(raise(ran)));
    sync_wait(scope.join());
    CHECK(ran);
    support::gate open;
    open.open();
    sync_wait(schedule_on(pool, fork(open)));
  }

  TEST_CASE("fork: results of every kind come back, and errors do") {
    thread_pool pool{2};
    int x = 0;
    auto reference = [&]() -> task<int&> { co_return x; };
    auto unique = []() -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(4); };
    auto got = sync_wait(schedule_on(pool, when_all(fork(unique()), fork(reference()))));
    static_assert(std::is_same_v<decltype(got), std::tuple<std::unique_ptr<int>, int&>>);
    CHECK(*std::get<0>(got) == 4);
    CHECK(&std::get<1>(got) == &x);
    CHECK(&sync_wait(schedule_on(pool, fork(reference()))) == &x);
    static_assert(std::is_void_v<decltype(sync_wait(fork(fail(""))))>);
    CHECK_THROWS_WITH(sync_wait(schedule_on(pool, fork(fail("alone")))), "alone");
    CHECK_THROWS_WITH(sync_wait(schedule_on(pool, when_all(fork(number(1)), fork(fail("one"))))),
                      "one");
  }

  TEST_CASE("fork: nothing runs before it is awaited, and it may be moved until then") {
    thread_pool pool{1};
    const auto give = [](counted c) -> task<counted> { co_return c; };
    {
      auto first = fork(give(counted(2)));
      auto second = std::move(first);
      auto third = when_all(std::move(second), fork(give(counted(3))));
      auto fourth = std::move(third);
      CHECK(counted::alive() == 2);
      CHECK(std::get<0>(sync_wait(schedule_on(pool, std::move(fourth)))).value == 2);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("fork: what waits in one ends when its siblings are stopped") {
    thread_pool pool{1};
    critical_section cs;
    const section_guard busy = support::hold(cs);
    const auto any = [](critical_section& s) -> task<std::size_t> {
      const auto got = co_await when_any(fork(wait_in_line(s)), fork(number(1)));
      co_return got.index;
    };
    CHECK(sync_wait(schedule_on(pool, any(cs))) == 1);
    CHECK_THROWS_AS(
        sync_wait(schedule_on(pool, timeout(fork(wait_in_line(cs)), std::chrono::nanoseconds(1)))),
        deadline_exceeded);
  }

  TEST_CASE("fork: what waits in one ends with its scope") {
    thread_pool pool{2};
    critical_section cs;
    const section_guard busy = support::hold(cs);
    async_scope scope{{.fail_fast = true, .executor = pool}};
    const auto both = [](critical_section& s) -> task<> {
      co_await when_all(fork(wait_in_line(s)), fork(wait_in_line(s)));
    };
    scope.spawn(both(cs));
    support::wait_for_waiters(cs, 2);
    scope.request_stop();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
  }

  TEST_CASE("fork: counts as part of what holds a section") {
    thread_pool pool{2};
    critical_section cs;
    const auto from_guard = [](critical_section& s) -> task<> {
      const section_guard guard = co_await s.lock();
      co_await fork(ask_again(s));
    };
    CHECK_THROWS_AS(sync_wait(schedule_on(pool, from_guard(cs))), reentry_error);
    const auto from_body = [](critical_section& s) -> task<> {
      const auto body = [&s]() -> task<> {
        co_await when_all(fork(ask_again(s)), fork(ask_again(s)));
      };
      co_await s.execute(body);
    };
    CHECK_THROWS_AS(sync_wait(schedule_on(pool, from_body(cs))), reentry_error);
    CHECK(cs.try_execute([] {}));
  }

  TEST_CASE("fork: a guard that it leaves behind is its awaiter's") {
    thread_pool pool{2};
    critical_section cs;
    const auto take = [](critical_section& s) -> task<section_guard> {
      co_return co_await s.lock();
    };
    const auto whole = [take](critical_section& s) -> task<> {
      const section_guard guard = co_await fork(take(s));
      co_await ask_again(s);
    };
    CHECK_THROWS_AS(sync_wait(schedule_on(pool, whole(cs))), reentry_error);
    CHECK(cs.try_execute([] {}));
  }

  TEST_CASE("fork: chains of any length need no stack") {
    struct chain {
      static task<> alone(int n, stack_meter& m) {
        m.look();
        if (n != 0) co_await fork(alone(n - 1, m));
      }
      static task<> beside(int n, stack_meter& m) {
        m.look();
        if (n != 0) co_await when_all(fork(number(n)), beside(n - 1, m));
      }
      static task<> last(int n, stack_meter& m) {
        m.look();
        if (n != 0) co_await when_all(number(n), last(n - 1, m));
      }
    };
    constexpr int length = 50000;
    constexpr std::size_t shallow = 64 * 1024;
    thread_pool pool{1};
    for (task<> (*const kind)(int, stack_meter&) : {&chain::alone, &chain::beside, &chain::last}) {
      stack_meter m;
      sync_wait(schedule_on(pool, kind(length, m)));
      CHECK(m.used() < shallow);
    }
    stack_meter m;
    sync_wait(chain::last(length, m));
    CHECK(m.used() < shallow);
  }

  TEST_CASE("fork: endless forks starve neither the oldest one nor other jobs") {
    thread_pool pool{1};
    SUBCASE("the oldest fork") {
      std::atomic<bool> over{false};
      sync_wait(schedule_on(pool, beside_endless_forks(over)));
      CHECK(over);
    }
    SUBCASE("what the worker has posted") {
      std::atomic<bool> over{false};
      async_scope scope{{.executor = pool}};
      const auto post_first = [](async_scope& s, std::atomic<bool>& flag) -> task<> {
        s.spawn(raise(flag));
        co_await fork_until(flag);
      };
      sync_wait(schedule_on(pool, post_first(scope, over)));
      sync_wait(scope.join());
    }
    SUBCASE("what comes from outside") {
      std::atomic<bool> over{false};
      async_scope scope{{.executor = pool}};
      scope.spawn(fork_until(over));
      sync_wait(schedule_on(pool, raise(over)));
      sync_wait(scope.join());
    }
  }

  TEST_CASE("fork: many of them that end on several workers, again and again") {
    thread_pool pool{3};
    for (int round = 0; round != 200; ++round) {
      std::atomic<int> n{0};
      sync_wait(schedule_on(pool, many(n, 20)));
      CHECK(n == 20);
    }
  }

  TEST_CASE("post: a job that is next runs before those that wait, on the worker that posts it") {
    thread_pool pool(1);
    order o;
    std::latch ran(4);
    struct noting : job {
      noting(order& all, int id, std::latch& done)
          : job([](job& j) noexcept {
              auto& self = static_cast<noting&>(j);
              self.to->add(self.number);
              self.ended->count_down();
            }),
            to(&all),
            number(id),
            ended(&done) {}
      order* to;
      int number;
      std::latch* ended;
    };
    noting first(o, 1, ran);
    noting second(o, 2, ran);
    noting next(o, 3, ran);
    noting last(o, 4, ran);
    sync_wait(schedule_on(
        pool, [](executor_ref on, noting& a, noting& b, noting& c, noting& d) -> task<> {
          detail::post(on, a, detail::queued::last);
          detail::post(on, b, detail::queued::last);
          detail::post(on, c, detail::queued::next);
          detail::post(on, d, detail::queued::last);
          co_return;
        }(pool, first, second, next, last)));
    ran.wait();
    CHECK(o.ids() == std::vector<int>{3, 1, 2, 4});
  }

  TEST_CASE("fork: awaiting one twice, or one that was moved from, aborts") {
    const auto make = [] { return fork([]() -> task<> { co_return; }()); };
    support::check_dies([&] { support::await_twice(make()); }, "a task is awaited");
    support::check_dies([&] { support::await_moved_from(make()); }, "a task is awaited");
    const auto make_two = [&] { return when_all(make(), make()); };
    support::check_dies([&] { support::await_twice(make_two()); }, "a task is awaited");
    support::check_dies([&] { support::await_moved_from(make_two()); }, "a task is awaited");
  }

  TEST_CASE(
      "post: on another executor, and from a thread of nobody's, a job that is next is one of its "
      "jobs") {
    manual_executor lane;
    thread_pool pool(1);
    int ran = 0;
    struct counting : job {
      explicit counting(int& n)
          : job([](job& j) noexcept { ++*static_cast<counting&>(j).ran; }), ran(&n) {}
      int* ran;
    };
    counting from_outside(ran);
    counting from_a_pool(ran);
    detail::post(lane, from_outside, detail::queued::next);
    sync_wait(schedule_on(pool, [](executor_ref on, job& j) -> task<> {
      detail::post(on, j, detail::queued::next);
      co_return;
    }(lane, from_a_pool)));
    CHECK(ran == 0);
    CHECK(lane.run() == 2);
    CHECK(ran == 2);
  }
}
