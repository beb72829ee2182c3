// handing_back.cpp - what has ended goes on, whatever is served next, and wherever that blocks.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <latch>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

// A job that calls a function.
template <class F>
struct calls : job {
  explicit calls(F f) : job(&run_it), function(std::move(f)) {}
  static void run_it(job& j) noexcept { static_cast<calls&>(j).function(); }
  F function;
};

task<> note_when_over(bool& over, auto execution) {
  try {
    co_await std::move(execution);
  } catch (const operation_cancelled&) {
  }
  over = true;
}

const auto never_true = [] { return false; };

struct runs_at_once {
  void post(job& j) noexcept { j.run(); }
};

// Whose jobs say that they run on the other one.
struct passes_on {
  executor_ref to;
  void post(job& j) noexcept { to.post(j); }
};

// Blocks its thread, until another one has done something.
void block_for_a_moment() {
  const auto there = []() -> task<> { co_return; };
  sync_wait(schedule_on(thread_pool::shared(), there()));
}

// Asked by a thread that holds nothing: the next body of `cs` blocks until `g` is free.
void post_who_wants(critical_section& cs, critical_section& g, bool& ran) {
  std::thread([&] { cs.post([&] { g.execute_blocking([&] { ran = true; }); }); }).join();
}

// Two that go on together on a thread without an executor: the first one blocks for what the second
// one does.
struct needs_the_next {
  critical_section g;
  section_guard held = support::hold(g);
  bool ran = false;

  void block() {
    g.execute_blocking([this] { ran = true; });
  }
  ~needs_the_next() { CHECK(ran); }
};

void ask_there(bool by_a_guard, bool withdraw_the_oldest) {
  loop gui;
  loop home;
  critical_section cs({.executor = gui});
  std::stop_source stop;
  bool open = false;
  bool oldest_over = false;
  bool over = false;
  bool held = false;
  int asked_elsewhere = 0;
  int asked = 0;
  const auto predicate = [&] {
    ++asked;
    asked_elsewhere += gui.here() ? 0 : 1;
    return open;
  };
  async_scope scope{{.executor = home}};
  scope.spawn(
      note_when_over(oldest_over, cs.execute_when(never_true, [] {}, {.stop = stop.get_token()})));
  scope.spawn(note_when_over(over, cs.execute_when(predicate, [] {})));
  home.run();
  gui.run();
  CHECK(asked == 1);
  gate g;
  auto holds = [&]() -> task<> {
    section_guard mine = co_await cs.lock();
    co_await g;
    open = true;
  };
  const auto waits = [&]() -> task<> {
    co_await g;
    open = true;
  };
  if (by_a_guard) {
    scope.spawn(holds());
  } else {
    scope.spawn(note_when_over(held, cs.execute(waits)));
  }
  home.run();
  gui.run();
  home.run();
  support::run_on(home, [&] { g.open(); });
  CHECK(asked == 1);
  CHECK(cs.statistics().held);
  if (withdraw_the_oldest) {
    stop.request_stop();
    home.run();
    CHECK(oldest_over);
  }
  gui.run();
  home.run();
  CHECK(asked == 2);
  CHECK(asked_elsewhere == 0);
  CHECK(over);
  stop.request_stop();
  home.run();
  CHECK(oldest_over);
  CHECK_FALSE(cs.statistics().held);
  sync_wait(scope.join());
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE(
      "handing back: who was set aside and asks again in the same drain is sent home as anybody") {
    loop home;
    critical_section cs;
    std::stop_source stop;
    std::vector<std::string> order;
    calls next_job([&] { order.emplace_back("the next job at home"); });
    // Runs as part of the drain that set the first request aside, and lets the second one be made.
    const auto withdraw = [&] {
      stop.request_stop();
      home.run();
    };
    auto asks_twice = [&]() -> task<> {
      for (const bool first : {true, false}) {
        const auto predicate = [&, first] {
          if (first) cs.post(withdraw);
          return !first;
        };
        const auto body = [&] { executor_ref(home).post(next_job); };
        execute_options options;
        if (first) options.stop = stop.get_token();
        try {
          co_await cs.execute_when(predicate, body, options);
        } catch (const operation_cancelled&) {
        }
      }
      order.emplace_back("who asked");
    };
    async_scope scope{{.executor = home}};
    scope.spawn(asks_twice());
    home.run();
    CHECK(order == std::vector<std::string>{"the next job at home", "who asked"});
    sync_wait(scope.join());
  }

  TEST_CASE("handing back: who was just set aside goes when it wants to, though a body runs") {
    loop home;
    critical_section cs;
    std::stop_source stop;
    bool over = false;
    bool over_within = false;
    section_guard busy = support::hold(cs);
    async_scope scope{{.executor = home}};
    scope.spawn(
        note_when_over(over, cs.execute_when(never_true, [] {}, {.stop = stop.get_token()})));
    home.run();
    cs.post([&] {
      stop.request_stop();
      home.run();
      over_within = over;
    });
    busy.unlock();
    CHECK(over_within);
    sync_wait(scope.join());
  }

  TEST_CASE("handing back: who waited for a body does not wait for the next one") {
    loop home;
    gate g;
    critical_section cs;
    bool over = false;
    bool over_within = false;
    async_scope scope{{.executor = home}};
    const auto waits = [&]() -> task<> { co_await g; };
    scope.spawn(note_when_over(over, cs.execute(waits)));
    home.run();
    cs.post([&] {
      home.run();
      over_within = over;
    });
    g.open();
    CHECK(over_within);
    sync_wait(scope.join());
  }

  TEST_CASE("handing back: a body blocks for the one before it, which has no home") {
    thread_pool pool{1};
    critical_section cs;
    std::optional<section_guard> busy = cs.try_lock();
    execution_handle<int> before = cs.submit([] { return 1; });
    const auto body = [&] { return sync_wait(std::move(before)); };
    auto asks = [&]() -> task<int> { co_return co_await cs.execute(body); };
    int got = 0;
    async_scope scope{{.executor = pool}};
    scope.spawn(
        [](task<int> t, int& into) -> task<> { into = co_await std::move(t); }(asks(), got));
    support::wait_for_waiters(cs, 2);
    busy->unlock();
    sync_wait(scope.join());
    CHECK(got == 1);
  }

  TEST_CASE("handing back: of several that are left, one's next body blocks for another one") {
    critical_section a;
    critical_section b;
    bool first = false;
    bool second = false;
    bool ran = false;
    std::optional<foreign> in_a;
    std::optional<foreign> in_b;
    const auto wants_a = [&] { a.execute_blocking([&] { ran = true; }); };
    // Asked by another thread, which holds nothing.
    const auto ask = [&] {
      in_a.emplace(support::await_in_foreign(a.execute([] {}), first));
      in_b.emplace(support::await_in_foreign(b.execute(wants_a), second));
    };
    sync_wait(execute(std::tie(a, b), [&] { std::thread(ask).join(); }));
    in_a->wait();
    in_b->wait();
    CHECK(first);
    CHECK(second);
    CHECK(ran);
  }

  TEST_CASE("handing back: the body of several blocks for what was served just before") {
    critical_section a;
    critical_section b;
    critical_section g;
    bool ran = false;
    std::optional<foreign> holds_g;
    std::optional<foreign> wants_both;
    bool over = false;
    section_guard busy = support::hold(a);
    const auto hold_g = [&]() -> foreign {
      section_guard mine = co_await g.lock();
      co_await a.execute([] {});
    };
    const auto body = [&] { g.execute_blocking([&] { ran = true; }); };
    // By a thread of its own each, for a thread's guards are its chain's.
    std::thread([&] { holds_g.emplace(hold_g()); }).join();
    std::thread([&] {
      wants_both.emplace(support::await_in_foreign(execute(std::tie(a, b), body), over));
    }).join();
    busy.unlock();
    holds_g->wait();
    wants_both->wait();
    CHECK(over);
    CHECK(ran);
  }

  TEST_CASE(
      "handing back: one of those that are left is passed on, and a body there blocks for who "
      "left") {
    critical_section a;
    critical_section b;
    critical_section g;
    gate ends;
    bool over[2] = {};
    bool ran = false;
    std::optional<foreign> leaves;
    std::optional<foreign> in_a;
    std::optional<foreign> in_b;
    const auto waits = [&]() -> task<> { co_await ends; };
    const auto leave = [&]() -> foreign {
      section_guard mine = co_await g.lock();
      co_await execute(std::tie(a, b), waits);
    };
    const auto wants_g = [&] { g.execute_blocking([&] { ran = true; }); };
    std::thread([&] { leaves.emplace(leave()); }).join();
    std::thread([&] {
      in_a.emplace(support::await_in_foreign(a.execute([] {}), over[0]));
      in_b.emplace(support::await_in_foreign(b.execute(wants_g), over[1]));
    }).join();
    ends.open();
    for (auto* each : {&leaves, &in_a, &in_b}) (*each)->wait();
    CHECK(over[0]);
    CHECK(over[1]);
    CHECK(ran);
  }

  TEST_CASE(
      "handing back: predicates of a bound section are asked there, though a hold ends elsewhere") {
    SUBCASE("that of a guard") {
      ask_there(true, false);
      ask_there(true, true);
    }
    SUBCASE("that of a body that waits") {
      ask_there(false, false);
      ask_there(false, true);
    }
  }

  TEST_CASE(
      "handing back: all that wait apart are withdrawn while they are to be asked elsewhere") {
    loop gui;
    loop home;
    bool over[2] = {};
    std::stop_source stop;
    async_scope scope{{.executor = home}};
    {
      critical_section cs({.executor = gui});
      for (bool& o : over) {
        scope.spawn(
            note_when_over(o, cs.execute_when(never_true, [] {}, {.stop = stop.get_token()})));
      }
      home.run();
      gui.run();
      auto holds = [&]() -> task<> { section_guard mine = co_await cs.lock(); };
      scope.spawn(holds());
      home.run();
      CHECK(cs.statistics().held);
      stop.request_stop();
      home.run();
      CHECK(over[0]);
      CHECK(over[1]);
      CHECK_FALSE(cs.statistics().held);
    }
    gui.run();  // what was posted there finds nothing any more
    sync_wait(scope.join());
  }

  TEST_CASE("handing back: an executor that runs at once is given everything once") {
    runs_at_once here;
    critical_section a;
    critical_section b;
    int resumed = 0;
    const auto next_one_blocks = [&] { std::thread([&] { b.post(&block_for_a_moment); }).join(); };
    const auto goes_on_here = [&]() -> task<> {
      co_await a.execute([] {}, {.resume_on = here});
      ++resumed;
      co_await b.execute(next_one_blocks);
    };
    const auto may_wait = []() -> task<> { co_return; };
    const auto is_next = [&]() -> task<> { co_await a.execute(may_wait); };
    async_scope scope;
    section_guard busy = support::hold(a);
    scope.spawn(goes_on_here());
    scope.spawn(is_next());
    busy.unlock();
    sync_wait(scope.join());
    CHECK(resumed == 1);
  }

  TEST_CASE("handing back: the next body blocks for who has asked for several, within the call") {
    critical_section a;
    critical_section b;
    critical_section g;
    bool ran = false;
    section_guard held = support::hold(g);
    const auto body = [&] { post_who_wants(b, g, ran); };
    const auto asks = [&]() -> task<> {
      co_await execute(std::tie(a, b), body);
      held.unlock();
    };
    sync_wait(asks());
    sync_wait(b.close());
    CHECK(ran);
  }

  TEST_CASE("handing back: the next body blocks for who has asked, within the call") {
    critical_section cs;
    critical_section g;
    bool ran = false;
    section_guard held = support::hold(g);
    const auto always = [] { return true; };
    const auto body = [&] { post_who_wants(cs, g, ran); };
    const auto asks = [&]() -> task<> {
      co_await cs.execute_when(always, body);
      held.unlock();
    };
    sync_wait(schedule_on(thread_pool::shared(), asks()));
    sync_wait(cs.close());
    CHECK(ran);
  }

  TEST_CASE("handing back: one of two that join blocks for the other one") {
    needs_the_next both;
    gate ends;
    async_scope scope;
    const auto work = [&]() -> task<> { co_await ends; };
    const auto joins = [&](auto then) -> foreign {
      co_await scope.join();
      then();
    };
    scope.spawn(work());
    const foreign second = joins([&] { both.held.unlock(); });
    const foreign first = joins([&] { both.block(); });  // who came last goes on first
    ends.open();
    for (const foreign* each : {&first, &second}) each->wait();
  }

  TEST_CASE("handing back: one of two that write a mirrored value blocks for the other one") {
    needs_the_next both;
    mirrored<long> value(3, 0, aggregation::sum);
    const auto writes = [&](std::size_t replica, auto then) -> foreign {
      co_await value.assign(replica, 1);
      then();
    };
    bool is_the_last = false;  // who serves them
    SUBCASE("for one that waits") {}
    SUBCASE("for the one that serves them") { is_the_last = true; }
    const auto provide = [&](bool mine) {
      if (mine) both.held.unlock();
    };
    const foreign second = writes(1, [&] { provide(!is_the_last); });
    const foreign first = writes(0, [&] { both.block(); });
    const foreign last = writes(2, [&] { provide(is_the_last); });
    for (const foreign* each : {&first, &second, &last}) each->wait();
  }

  TEST_CASE("handing back: one of two that read after a writer blocks for the other one") {
    needs_the_next both;
    gate ends;
    resource thing;
    ordered_scope scope;
    const auto waits = [&]() -> task<> { co_await ends; };
    scope.add(writes(thing), waits);
    scope.add(reads(thing), [&] { both.block(); });
    scope.add(reads(thing), [&] { both.held.unlock(); });
    ends.open();
    sync_wait(scope.join());
  }

  TEST_CASE(
      "handing back: who was given away and asks again meanwhile is not the call's own request") {
    // The more bodies before the one that blocks, the longer the drain does not look at the clock.
    for (int before = 0; before != 12; ++before) {
      thread_pool pool(2);
      critical_section s;
      critical_section other{"other"};
      const auto until_it_asks_again = [&]() -> task<> {
        while (s.statistics().waiters == 0) co_await turnstile::yield();
      };
      const auto first = [&] {
        for (int i = 0; i != before; ++i) s.post([] {});
        s.post([&] { sync_wait(schedule_on(pool, until_it_asks_again())); });
      };
      const auto always = [] { return true; };
      const auto ask_in_one_place = [&]() -> task<> {
        std::optional<section_guard> held;
        for (int i = 0; i != 2; ++i) {
          const auto body = [&first, i] {
            if (i == 0) first();
          };
          co_await s.execute_when(always, body);
          if (i == 0) held.emplace(co_await other.lock());
        }
        CHECK_THROWS_AS(co_await other.execute([] {}), reentry_error);
      };
      sync_wait(schedule_on(pool, ask_in_one_place()));
      CHECK(s.statistics().executions == static_cast<std::uint64_t>(before) + 3);
    }
  }

  TEST_CASE("handing back: a drain that ends by closing leaves nothing behind in its thread") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    execution_handle<void> has_no_home = cs.submit([] {});
    bool over = false;
    const foreign closes = support::await_in_foreign(cs.close(), over);
    busy.unlock();
    closes.wait();
    block_for_a_moment();
    sync_wait(std::move(has_no_home));
    CHECK(over);
  }
}

TEST_CASE("a section that is bound to an executor that passes its jobs on") {
  thread_pool pool(1);
  passes_on there{pool};
  critical_section cs({.executor = there});
  int ran = 0;
  const auto body = [&] { ++ran; };
  const auto asks = [&]() -> task<> { co_await cs.execute(body); };
  const auto waits_apart = [&]() -> task<> {
    auto is_true = [&] { return ran >= 4; };
    co_await cs.execute_when(is_true, body);
  };
  async_scope scope({.executor = pool});
  scope.spawn(waits_apart());
  cs.post(body);
  cs.execute_blocking(body);
  sync_wait(asks());
  scope.spawn(asks());
  sync_wait(scope.join());
  CHECK(ran == 5);
}

// All threads of an executor may be blocked for a guard, even those of the section's own executor.
TEST_CASE("a guard is given to a blocked thread by whoever has it, also of a bound section") {
  for (const bool is_bound : {false, true}) {
    CAPTURE(is_bound);
    for (const bool is_measured : {false, true}) {
      CAPTURE(is_measured);
      for (const bool by_pool : {false, true}) {
        CAPTURE(by_pool);
        thread_pool home(1);
        thread_pool other(1);
        const section_options bound{.executor = home};
        critical_section cs(is_bound ? bound : section_options{});
        delegated_mutex m{cs};
        registry::keep_times(cs, is_measured);
        std::latch has{1};
        std::latch goes_on{1};
        const auto holds = [&]() -> task<> {
          const std::scoped_lock lock(m);
          has.count_down();
          goes_on.wait();
          co_return;
        };
        const auto blocks = [&]() -> task<> {
          const std::scoped_lock lock(m);
          co_return;
        };
        async_scope on_home({.executor = home});
        async_scope on_other({.executor = other});
        section_guard mine;
        if (by_pool) {
          on_other.spawn(holds());
          has.wait();
        } else {
          mine = sync_wait(cs.lock());
        }
        on_home.spawn(blocks());
        support::wait_for_waiters(cs, 1);
        mine.unlock();
        goes_on.count_down();
        sync_wait(on_home.join());
        sync_wait(on_other.join());
        CHECK_FALSE(cs.statistics().held);
      }
    }
  }
}

// Who withdraws may run anywhere, and nobody may run there any more: a section that waits for its
// executor with what is withdrawn goes on where others can go on.
TEST_CASE("a section is not left to the executor of who withdraws") {
  loop home;
  loop behind;
  loop withdraws;
  std::stop_source stop;
  bool over = false;
  bool next_over = false;
  async_scope scope{{.executor = home}};
  calls asks_to_stop([&] { stop.request_stop(); });
  const auto withdraw = [&] {
    home.run();
    executor_ref(withdraws).post(asks_to_stop);
    withdraws.run_one();
    while (!next_over) {
      home.run();
      std::this_thread::yield();
    }
    CHECK(over);
  };
  SUBCASE("bound, and a guard is next") {
    critical_section cs({.executor = behind});
    const auto locks = [&]() -> task<> { const section_guard mine = co_await cs.lock(); };
    scope.spawn(note_when_over(over, cs.execute([] {}, {.stop = stop.get_token()})));
    scope.spawn(note_when_over(next_over, locks()));
    withdraw();
  }
  SUBCASE("not bound") {
    critical_section cs;
    variable<int> v(0);
    section_guard mine = support::hold(cs);
    scope.spawn(note_when_over(over, cs.execute([] {}, {.stop = stop.get_token()})));
    scope.spawn(note_when_over(next_over, cs.execute([] {})));
    home.run();
    calls leaves([&] { v.update([&](int&) { mine.unlock(); }); });
    executor_ref(behind).post(leaves);
    behind.run_one();
    withdraw();
  }
  CHECK(withdraws.pending() == 0);
  sync_wait(scope.join());
  behind.run();
}
