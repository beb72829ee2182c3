// any_coroutine.cpp - every coroutine type may await everything, whatever it does to what it
// awaits.

#include "support/coroutine_types.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <optional>
#include <queue>
#include <stdexcept>
#include <stop_token>
#include <thread>
#include <tuple>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::lazy;
using support::loop;
using support::own_frames;
using support::own_loop;
using support::steps;

namespace {

using namespace std::chrono_literals;

struct world {
  critical_section cs{"first"};
  critical_section other{"second"};
  synchronized<int> number{0};
  std::vector<int> list;
};

task<int> child(world& w) {
  w.list.push_back(5);
  co_return co_await w.cs.execute([] { return 6; });
}

template <class How>
lazy<How, int> of_its_own_kind(own_loop&, world& w) {
  co_return co_await w.cs.execute([] { return 20; });
}

template <class How>
lazy<How> everything(own_loop& home, world& w) {
  std::vector<int>& list = w.list;
  co_await w.cs.execute([&] { list.push_back(1); });
  list.push_back(co_await w.cs.execute([] { return 2; }));
  auto execution = w.cs.execute([] { return 3; });
  list.push_back(co_await std::move(execution));
  {
    const section_guard g = co_await w.cs.lock();
    list.push_back(4);
  }
  list.push_back(co_await child(w));
  auto handle = w.cs.submit([] { return 7; });
  list.push_back(co_await handle);
  list.push_back(co_await w.cs.submit([] { return 8; }));
  auto waiting_body = [&w] { return w.other.execute([] { return 9; }); };
  list.push_back(co_await w.cs.execute(waiting_body));
  co_await execute(std::tie(w.cs, w.other), [&] { list.push_back(10); });
  auto positive = [](const int& n) { return n > 0; };
  w.number.post([](int& n) { n = 11; });
  list.push_back(co_await w.number.execute_when(positive, [](int& n) { return n; }));
  auto both =
      co_await when_all(w.cs.execute([] { return 12; }), w.other.execute([] { return 13; }));
  list.push_back(std::get<0>(both));
  list.push_back(std::get<1>(both));
  const auto first_end = co_await when_any(w.cs.execute([] { return 14; }), sleep_for(1h));
  list.push_back(std::get<0>(first_end.value));
  list.push_back(co_await timeout(w.cs.execute([] { return 15; }), 1h));
  auto first = w.other.execute([] { return 16; });
  list.push_back(co_await w.cs.execute(after(std::move(first)), [](int n) { return n; }));
  co_await sleep_for(0ms);
  co_await yield();
  {
    auto g = co_await w.number.lock();
    *g = 17;
    list.push_back(*g);
  }
  async_scope scope;
  auto spawned = [](world& v) -> task<> { co_await v.cs.execute([&v] { v.list.push_back(18); }); };
  scope.spawn(spawned(w));
  co_await scope.join();
  co_await w.other.close();
  try {
    co_await w.other.execute([] {});
  } catch (const section_closed&) {
    list.push_back(19);
  }
  list.push_back(co_await of_its_own_kind<How>(home, w));
}

const std::vector<int> all_of_it = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                    11, 12, 13, 14, 15, 16, 17, 18, 19, 20};

template <class Lazy>
void run_to_its_end(own_loop& home, const Lazy& l) {
  while (!l.done()) {
    home.run();
    std::this_thread::yield();
  }
  l.rethrow();
}

template <class How>
lazy<How> ask(own_loop&, critical_section& cs, execute_options how, bool& over) {
  co_await cs.execute([] {}, how);
  over = true;
}

template <class How>
lazy<How> throw_inside(own_loop&, critical_section& cs) {
  co_await cs.execute([] { throw std::runtime_error("of the body"); });
}

// Asks for what it has a guard on. True: it was refused, and goes on.
template <class How>
lazy<How, bool> ask_again(own_loop&, critical_section& cs) {
  try {
    co_await cs.execute([] {});
  } catch (const reentry_error&) {
    co_return true;
  }
  co_return false;
}

template <class How>
lazy<How> lock_and_ask_again(own_loop& home, critical_section& cs, bool& refused) {
  const section_guard g = co_await cs.lock();
  refused = co_await ask_again<How>(home, cs);
}

template <class How>
lazy<How> wait_for(own_loop&, gate& g) {
  co_await g;
}

template <class Lock, class How>
lazy<How> lock_and_wait(own_loop&, Lock& cs, gate& g) {
  const auto guard = co_await cs.lock();
  co_await g;
}

enum class ending { when_any, timeout };

template <class How>
lazy<How> wait_below_then_enter(own_loop&, ending way, critical_section& first,
                                critical_section& second, bool& over) {
  if (way == ending::when_any) {
    co_await when_any(first.execute([] {}), sleep_for(1h));
  } else {
    co_await timeout(first.execute([] {}), 1h);
  }
  co_await second.execute([] {});
  over = true;
}

// Asks for `outer` after a wait for `inner` in a task. True: it was refused.
template <class How>
lazy<How, bool> wait_in_task_then_ask(own_loop&, critical_section& inner, critical_section& outer) {
  auto wait = [](critical_section& cs) -> task<> { co_await cs.execute([] {}); };
  co_await wait(inner);
  try {
    co_await outer.execute([] {});
  } catch (const reentry_error&) {
    co_return true;
  }
  co_return false;
}

foreign enter(critical_section& cs, bool& over) {
  co_await cs.execute([] {});
  over = true;
}

foreign note_home(critical_section& cs, const loop& home, std::vector<bool>& at_home) {
  co_await cs.execute([] {});
  at_home.push_back(home.here());
  const section_guard g = co_await cs.lock();
  at_home.push_back(home.here());
  co_await when_all(sleep_for(0ms), []() -> task<> { co_return; }());
  at_home.push_back(home.here());
}

// Waits on its executor, and then awaits what does not wait, with a guard that it did not have
// then, or without one that it had.
task<> nothing() { co_return; }
task<section_guard> lock_and_go_on(critical_section& cs) {
  co_await yield();
  section_guard g = co_await cs.lock();
  co_await nothing();
  co_return g;
}
task<section_guard> lock_both_and_go_on(critical_section& kept, critical_section& then) {
  section_guard g = co_await kept.lock();
  co_await yield();
  const section_guard second = co_await then.lock();
  co_await nothing();
  co_return g;
}
task<> unlock_and_go_on(critical_section& cs) {
  section_guard g = co_await cs.lock();
  co_await yield();
  g.unlock();
  co_await nothing();
}

// Resumes its coroutine within its own code, and goes on.
struct in_place {
  critical_section* then_tried = nullptr;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const {
    critical_section* const cs = then_tried;
    h.resume();  // this may be gone
    if (cs != nullptr) cs->try_execute([] {});
  }
  void await_resume() const noexcept {}
};

// Asks for a section in coroutines that know nothing of each other, and notes whether one was
// refused.
class outsiders {
 public:
  explicit outsiders(critical_section& cs) noexcept : cs_(&cs) {}

  void ask() { all_.push_back(enter_if_allowed(*cs_, refused_)); }
  // Once all of them have been let in, or one was not.
  bool any_refused() const {
    for (const foreign& f : all_) f.wait();
    return refused_;
  }

 private:
  static foreign enter_if_allowed(critical_section& cs, bool& refused) {
    try {
      co_await cs.execute([] {});
    } catch (const reentry_error&) {
      refused = true;
    }
  }

  critical_section* cs_;
  bool refused_ = false;
  std::vector<foreign> all_;
};

// Resumes its coroutine within its own code, and asks then, maybe after it has opened a gate on
// another thread.
struct in_place_then_asks {
  outsiders* who;
  gate* opened_elsewhere = nullptr;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) const {
    outsiders* const asks = who;
    gate* const g = opened_elsewhere;
    h.resume();  // this may be gone
    if (g != nullptr) std::jthread([g] { g->open(); }).join();
    asks->ask();
  }
  void await_resume() const noexcept {}
};

// Goes on as another one, which somebody has kept, and is kept itself.
struct kept_handle {
  std::coroutine_handle<> kept;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) noexcept { kept = h; }
  void await_resume() const noexcept {}
};
struct goes_on_as {
  kept_handle* other;
  kept_handle* self;

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h) const noexcept {
    self->kept = h;
    return other->kept;
  }
  void await_resume() const noexcept {}
};

foreign ask_when_resumed(kept_handle& k, bool& may_stop) {
  co_await k;
  const std::stop_token token = co_await current_stop_token();
  may_stop = token.stop_possible();
}

// Another library's loop: who gives it something while it is idle runs it.
class loop_in_place {
 public:
  template <class F>
  void post(F f) {
    ready_.emplace(std::move(f));
    if (std::exchange(runs_, true)) return;
    while (!ready_.empty()) {
      const std::function<void()> next = std::move(ready_.front());
      ready_.pop();
      next();
    }
    runs_ = false;
  }

  struct turn {
    loop_in_place* in;
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h) const {
      in->post([h] { h.resume(); });
    }
    void await_resume() const noexcept {}
  };
  turn a_turn() noexcept { return {this}; }

 private:
  std::queue<std::function<void()>> ready_;
  bool runs_ = false;
};

lazy<support::as_it_is> wait_for_turn(own_loop&, loop_in_place& in) { co_await in.a_turn(); }

// Below what has ended nothing can be stopped any more.
template <class A>
foreign ask_after(A a, bool& may_stop) {
  co_await yield();
  co_await std::move(a);
  const std::stop_token token = co_await current_stop_token();
  may_stop = token.stop_possible();
}

foreign ask_for_outer_after(critical_section& outer, critical_section& inner,
                            critical_section& other, bool& refused) {
  co_await yield();
  const section_guard mine = co_await outer.lock();
  const section_guard got = co_await lock_both_and_go_on(inner, other);
  try {
    co_await outer.execute([] {});
  } catch (const reentry_error&) {
    refused = true;
  }
}

steps counted(critical_section& cs, int n) {
  for (int i = 0; i != n; ++i) {
    co_yield co_await cs.execute([i] { return i; });
  }
}

steps guarded(critical_section& cs) {
  const section_guard g = co_await cs.lock();
  co_yield 1;
}

}  // namespace

#define EVERY_KIND                                                                   \
  support::as_it_is, support::by_value, support::by_reference, support::type_erased, \
      support::at_home

TEST_SUITE("path") {
  TEST_CASE("any coroutine: re-entry is found in one that a task awaits which has resumed others") {
    own_loop home;
    critical_section cs;
    gate g;
    bool refused = false;
    const auto leaf = [&]() -> task<> { co_await g; };
    const auto waits = [&]() -> task<> { co_await leaf(); };
    const auto holds = [&]() -> task<> {
      const section_guard guard = co_await cs.lock();
      g.open();
      refused = co_await ask_again<support::as_it_is>(home, cs);
    };
    sync_wait(when_all(waits(), holds()));
    CHECK(refused);
  }

  TEST_CASE_TEMPLATE("any coroutine: may await everything", How, EVERY_KIND) {
    own_loop home;
    world w;
    const int before = own_frames::made;
    const lazy<How> all = everything<How>(home, w);
    CHECK(w.list.empty());
    all.start();
    run_to_its_end(home, all);
    CHECK(w.list == all_of_it);
    CHECK(own_frames::made == before + 2);  // its own; the library wants none from there
  }

  TEST_CASE_TEMPLATE("any coroutine: may await everything, and wait for it", How, EVERY_KIND) {
    own_loop home;
    world w;
    const lazy<How> all = everything<How>(home, w);
    section_guard busy = support::hold(w.cs);
    all.start();
    CHECK(w.list.empty());
    CHECK(w.cs.statistics().waiters == 1);
    const std::jthread other([&] { busy.unlock(); });
    run_to_its_end(home, all);
    CHECK(w.list == all_of_it);
  }

  TEST_CASE_TEMPLATE("any coroutine: may await everything beside others on a pool", How,
                     EVERY_KIND) {
    thread_pool pool{2};
    own_loop home;
    world w;
    std::atomic<bool> over{false};
    async_scope scope{{.executor = pool}};
    auto beside = [](critical_section& cs, const std::atomic<bool>& end) -> task<> {
      while (!end.load()) {
        co_await cs.execute([] {});
        co_await yield();
      }
    };
    scope.spawn(beside(w.cs, over));
    const lazy<How> all = everything<How>(home, w);
    auto start = [](const lazy<How>& l) -> task<> {
      l.start();
      co_return;
    };
    scope.spawn(start(all));
    run_to_its_end(home, all);
    over.store(true);
    sync_wait(scope.join());
    CHECK(w.list == all_of_it);
  }

  TEST_CASE_TEMPLATE("any coroutine: gets what its body throws", How, EVERY_KIND) {
    own_loop home;
    critical_section cs;
    const lazy<How> idle = throw_inside<How>(home, cs);
    idle.start();
    CHECK_THROWS_AS(run_to_its_end(home, idle), std::runtime_error);
    section_guard busy = support::hold(cs);
    const lazy<How> queued = throw_inside<How>(home, cs);
    queued.start();
    busy.unlock();
    CHECK_THROWS_AS(run_to_its_end(home, queued), std::runtime_error);
  }

  TEST_CASE_TEMPLATE("any coroutine: is withdrawn by the token of the thread it began on", How,
                     EVERY_KIND) {
    own_loop home;
    critical_section cs;
    section_guard busy = support::hold(cs);
    bool over = false;
    std::optional<lazy<How>> waiter;
    std::jthread thread([&](const std::stop_token& token) {
      waiter.emplace(ask<How>(home, cs, {.stop = token}, over));
      waiter->start();
    });
    support::wait_for_waiters(cs, 1);
    thread.request_stop();
    thread.join();
    CHECK_THROWS_AS(run_to_its_end(home, *waiter), operation_cancelled);
    CHECK_FALSE(over);
    CHECK(cs.statistics().held);
    CHECK(cs.statistics().withdrawn == 1);
  }

  TEST_CASE_TEMPLATE("any coroutine: is refused what it has a guard on, and goes on", How,
                     support::as_it_is, support::by_value, support::by_reference,
                     support::type_erased) {
    own_loop home;
    critical_section cs;
    bool refused = false;
    const lazy<How> idle = lock_and_ask_again<How>(home, cs, refused);
    idle.start();
    CHECK(idle.done());
    CHECK(std::exchange(refused, false));
    section_guard busy = support::hold(cs);
    const lazy<How> queued = lock_and_ask_again<How>(home, cs, refused);
    queued.start();
    busy.unlock();
    CHECK(queued.done());
    CHECK(refused);
  }

  TEST_CASE("any coroutine: one that a plain body starts is refused the body's section") {
    own_loop home;
    critical_section cs;
    std::optional<lazy<support::as_it_is, bool>> asks;
    sync_wait(cs.execute([&] {
      asks.emplace(ask_again<support::as_it_is>(home, cs));
      asks->start();
    }));
    REQUIRE(asks->done());
    CHECK(asks->await_resume());
  }

  TEST_CASE_TEMPLATE("any coroutine: may be what a body returns, with its result", How,
                     support::as_it_is, support::by_value, support::type_erased) {
    own_loop home;
    critical_section cs;
    critical_section inner;
    auto again = [&] { return ask_again<How>(home, cs); };
    CHECK(sync_wait(cs.execute(again)));
    auto again_in_task = [&]() -> task<bool> { co_return co_await ask_again<How>(home, cs); };
    CHECK(sync_wait(cs.execute(again_in_task)));
    auto other = [&] { return ask_again<How>(home, inner); };
    CHECK_FALSE(sync_wait(cs.execute(other)));
    section_guard busy = support::hold(inner);
    auto handle = cs.submit(other);
    support::wait_for_waiters(inner, 1);
    CHECK(cs.statistics().held);
    busy.unlock();
    CHECK_FALSE(sync_wait(std::move(handle)));
  }

  // --- where it goes on --------------------------------------------------------------------------

  TEST_CASE("any coroutine: on an executor, it comes back there") {
    loop home;
    critical_section cs;
    std::vector<bool> at_home;
    section_guard busy = support::hold(cs);
    std::optional<foreign> f;
    async_scope scope{{.executor = home}};
    auto start = [&]() -> task<> {
      f.emplace(note_home(cs, home, at_home));
      co_return;
    };
    scope.spawn(start());
    home.run();
    busy.unlock();
    CHECK(at_home.empty());
    while (!f->done()) home.run();
    CHECK(at_home == std::vector<bool>(3, true));
    sync_wait(scope.join());
  }

  TEST_CASE("any coroutine: one that keeps to a loop of its own goes on in its loop alone") {
    own_loop home;
    critical_section cs;
    bool over = false;
    section_guard busy = support::hold(cs);
    const lazy<support::at_home> l = ask<support::at_home>(home, cs, {}, over);
    l.start();
    std::jthread([&] { busy.unlock(); }).join();
    CHECK_FALSE(over);
    home.run();
    CHECK(over);
  }

  TEST_CASE(
      "any coroutine: one that asks for its result in its own loop outlives what it waited in") {
    own_loop home;
    critical_section outer;
    critical_section inner;
    section_guard busy = support::hold(inner);
    bool over = false;
    std::optional<lazy<support::at_home>> asks;
    sync_wait(outer.execute([&] {
      asks.emplace(ask<support::at_home>(home, inner, {}, over));
      asks->start();
    }));
    busy.unlock();  // its chain of then ends here
    CHECK_FALSE(over);
    bool other_over = false;
    section_guard other_busy = support::hold(inner);
    auto wait_in_outer = [&] { return inner.execute([] {}); };
    const foreign other = support::await_in_foreign(outer.execute(wait_in_outer), other_over);
    home.run();
    CHECK(over);
    other_busy.unlock();
    CHECK(other_over);
  }

  TEST_CASE("any coroutine: a generator awaits between its values, and is resumed with the next") {
    critical_section cs;
    steps s = counted(cs, 3);
    CHECK(s.next() == 0);
    section_guard busy = support::hold(cs);
    CHECK_FALSE(s.next().has_value());
    busy.unlock();
    CHECK(s.take() == 1);
    CHECK(s.next() == 2);
    CHECK_FALSE(s.next().has_value());
    CHECK(s.done());
  }

  // --- what it goes on as ------------------------------------------------------------------------

  TEST_CASE_TEMPLATE("any coroutine: a guard kept over a wait is no other coroutine's", How,
                     EVERY_KIND) {
    own_loop home;
    critical_section cs;
    gate g;
    const auto holder = lock_and_wait<critical_section, How>(home, cs, g);
    holder.start();
    home.run();
    bool over = false;
    const foreign other = enter(cs, over);
    CHECK_FALSE(other.done());
    CHECK_FALSE(cs.try_lock().has_value());
    CHECK(cs.statistics().waiters == 1);
    g.open();
    run_to_its_end(home, holder);
    CHECK(over);
  }

  TEST_CASE_TEMPLATE("any coroutine: what comes after a when_any or a timeout is not below it", How,
                     EVERY_KIND) {
    own_loop home;
    critical_section first;
    critical_section second;
    for (const ending way : {ending::when_any, ending::timeout}) {
      section_guard first_busy = support::hold(first);
      section_guard second_busy = support::hold(second);
      bool over = false;
      const lazy<How> l = wait_below_then_enter<How>(home, way, first, second, over);
      l.start();
      first_busy.unlock();
      while (second.statistics().waiters == 0) home.run();
      second_busy.unlock();
      run_to_its_end(home, l);
      CHECK(over);
    }
  }

  TEST_CASE("any coroutine: after a task that waited, one that a body began is still in the body") {
    own_loop home;
    critical_section outer;
    critical_section inner;
    std::optional<lazy<support::as_it_is, bool>> asks;
    gate g;
    section_guard busy = support::hold(inner);
    auto body = [&]() -> task<> {
      asks.emplace(wait_in_task_then_ask<support::as_it_is>(home, inner, outer));
      asks->start();
      co_await g;
    };
    bool over = false;
    const foreign f = support::await_in_foreign(outer.execute(body), over);
    busy.unlock();
    REQUIRE(asks->done());
    CHECK(asks->await_resume());
    g.open();
    CHECK(over);
  }

  TEST_CASE("any coroutine: a guard with the data, kept over a wait, is no other coroutine's") {
    own_loop home;
    synchronized<int> number;
    gate g;
    const auto holder = lock_and_wait<synchronized<int>, support::as_it_is>(home, number, g);
    holder.start();
    bool over = false;
    const foreign other = enter(number.section(), over);
    CHECK_FALSE(other.done());
    g.open();
    CHECK(over);
  }

  TEST_CASE("any coroutine: a guard got after serving others is no other coroutine's") {
    own_loop home;
    critical_section cs{section_options{.max_waiters = 4}};
    gate g;
    registry::keep_executions(8);
    const auto holder = lock_and_wait<critical_section, support::as_it_is>(home, cs, g);
    holder.start();
    registry::keep_executions(0);
    bool over = false;
    const foreign other = enter(cs, over);
    CHECK_FALSE(other.done());
    g.open();
    CHECK(over);
  }

  TEST_CASE("any coroutine: a guard kept while a generator has given a value is not its caller's") {
    critical_section cs;
    steps s = guarded(cs);
    CHECK(s.next() == 1);
    bool over = false;
    const foreign caller = enter(cs, over);
    CHECK_FALSE(over);
    CHECK_FALSE(s.next().has_value());
    CHECK(over);
  }

  TEST_CASE("any coroutine: a task's guard, kept over a wait, is not the thread's that began it") {
    critical_section cs;
    gate g;
    bool over = false;
    const foreign f = support::await_in_foreign(
        [](critical_section& s, gate& at) -> task<> {
          const section_guard guard = co_await s.lock();
          co_await at;
        }(cs, g),
        over);
    bool entered = false;
    const foreign other = enter(cs, entered);
    CHECK_FALSE(other.done());
    g.open();
    CHECK(over);
    CHECK(entered);
  }

  TEST_CASE("any coroutine: what a task that ends leaves it is its own chain") {
    loop home;
    critical_section cs;
    bool may_stop = true;
    const auto check = [&](auto a) {
      std::optional<foreign> asks;
      support::run_on(home, [&] { asks.emplace(ask_after(std::move(a), may_stop)); });
      home.run();
      REQUIRE(asks->done());
      CHECK_FALSE(may_stop);
    };
    SUBCASE("with a guard taken below") { check(timeout(lock_and_go_on(cs), 1h)); }
    SUBCASE("with one let go below") { check(timeout(unlock_and_go_on(cs), 1h)); }
    SUBCASE("the same of a when_any") { check(when_any(unlock_and_go_on(cs))); }
    SUBCASE("resumed by what it awaited") { check(timeout(in_place(), 1h)); }
    SUBCASE("the same of a when_any, which goes on") { check(when_any(in_place{&cs})); }
  }

  TEST_CASE("any coroutine: holds what it held when a task has ended that kept a guard") {
    loop home;
    critical_section outer;
    critical_section inner;
    critical_section other;
    bool refused = false;
    std::optional<foreign> asks;
    support::run_on(home, [&] { asks.emplace(ask_for_outer_after(outer, inner, other, refused)); });
    home.run();
    REQUIRE(asks->done());
    CHECK(refused);
  }

  TEST_CASE("any coroutine: what a task awaits may use a section after it has resumed it") {
    critical_section cs;
    async_scope scope;
    const auto limited = [&]() -> task<> { co_await timeout(in_place{&cs}, 1h); };
    const auto plain = [&]() -> task<> { co_await in_place{&cs}; };
    scope.spawn(limited());
    scope.spawn(plain());
    sync_wait(scope.join());
    CHECK(cs.statistics().executions == 2);
  }

  TEST_CASE("any coroutine: what has resumed it goes on as nobody, however the task went on") {
    critical_section cs;
    critical_section other;
    gate first;
    gate last;
    outsiders who(cs);
    async_scope scope;
    const auto check = [&](auto inner) {
      const auto outer = [&]() -> task<> { co_await cs.execute(inner); };
      scope.spawn(outer());
      first.open();
      sync_wait(scope.join());
      CHECK_FALSE(who.any_refused());
    };
    const in_place_then_asks asks{&who};
    SUBCASE("it ended") {
      check([&]() -> task<> { co_await asks; });
    }
    SUBCASE("it ended, and another library had resumed it before") {
      check([&]() -> task<> {
        co_await first;
        co_await asks;
      });
    }
    SUBCASE("it awaited a task") {
      check([&]() -> task<> {
        co_await asks;
        co_await nothing();
      });
    }
    SUBCASE("it awaited a task with a guard") {
      check([&]() -> task<> {
        co_await asks;
        const section_guard g = co_await other.lock();
        co_await nothing();
      });
    }
    SUBCASE("it awaited children") {
      check([&]() -> task<> {
        co_await asks;
        co_await when_all(nothing(), nothing());
      });
    }
    SUBCASE("it was resumed in place once more") {
      check([&]() -> task<> {
        co_await asks;
        co_await asks;
      });
    }
    SUBCASE("it waited, and ended on another thread") {
      check([&]() -> task<> {
        co_await in_place_then_asks{&who, &last};
        co_await last;
      });
    }
  }

  TEST_CASE("any coroutine: what it goes on as after it was resumed in place is not in its chain") {
    kept_handle other;
    kept_handle self;
    bool may_stop = true;
    const foreign asks = ask_when_resumed(other, may_stop);
    const auto waits = [&]() -> task<> {
      co_await in_place();
      co_await goes_on_as{&other, &self};
    };
    async_scope scope;
    const auto limited = [&]() -> task<> { co_await timeout(waits(), 1h); };
    scope.spawn(limited());
    CHECK(asks.done());
    CHECK_FALSE(may_stop);
    self.kept.resume();
    sync_wait(scope.join());
  }

  TEST_CASE("any coroutine: nor is one that has the place in memory of a task that ended so") {
    own_loop home;
    loop_in_place in;
    critical_section cs;
    outsiders who(cs);
    bool asked = false;
    const auto takes_turn = [&]() -> task<> { co_await in.a_turn(); };
    const auto holds = [&]() -> task<> {
      const section_guard g = co_await cs.lock();
      co_await takes_turn();
      co_await takes_turn();
      in.post([&] {
        who.ask();
        asked = true;
      });
      co_await wait_for_turn(home, in);
      CHECK(asked);
    };
    async_scope scope;
    scope.spawn(holds());
    sync_wait(scope.join());
    CHECK_FALSE(who.any_refused());
  }

  TEST_CASE("any coroutine: what has resumed another one in its stead goes on as nobody") {
    own_loop home;
    loop_in_place in;
    critical_section cs;
    gate g;
    outsiders who(cs);
    const auto body = [&]() -> task<> {
      co_await wait_for_turn(home, in);
      in.post([&] { who.ask(); });
      co_await g;
    };
    bool over = false;
    const auto outer = [&]() -> task<> {
      co_await cs.execute(body);
      over = true;
    };
    async_scope scope;
    scope.spawn(outer());
    g.open();
    sync_wait(scope.join());
    CHECK(over);
    CHECK_FALSE(who.any_refused());
  }

  TEST_CASE("any coroutine: locking again and again does not grow the stack") {
    own_loop home;
    critical_section cs;
    support::stack_meter m;
    const auto lock_often = [](critical_section& s, support::stack_meter& meter) -> foreign {
      for (int i = 0; i != 10000; ++i) {
        const section_guard g = co_await s.lock();
        meter.look();
      }
    };
    const foreign f = lock_often(cs, m);
    CHECK(f.done());
    CHECK(m.used() < 64 * 1024);
  }
}
