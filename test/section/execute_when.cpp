// execute_when.cpp - conditional critical regions.

#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::hold;
using support::loop;

namespace {

// Everything on one thread, step by step.
struct stage {
  template <class A>
  void start(A a) {
    scope.spawn(std::move(a));
    here.run();
  }
  void finish() {
    here.run();
    sync_wait(scope.join());
  }

  loop here;
  async_scope scope{{.executor = here}};
};

template <class E>
task<> expect(bool& threw, auto a) {
  try {
    co_await std::move(a);
  } catch (const E&) {
    threw = true;
  }
}

const auto nothing = [] {};

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("execute_when: runs at once if the predicate is true") {
    critical_section cs;
    int asked = 0;
    const auto yes = [&] { return ++asked == 1; };
    CHECK(sync_wait(cs.execute_when(yes, [] { return 7; })) == 7);
    CHECK(asked == 1);
    CHECK(cs.statistics().executions == 1);
  }

  TEST_CASE("execute_when: a predicate may give whatever may stand in an if") {
    critical_section cs;
    std::shared_ptr<int> thing;
    const auto is_there = [&] { return thing; };
    async_scope scope;
    int seen = 0;
    const auto look = [&] { seen = *thing; };
    scope.spawn(cs.execute_when(is_there, look));
    CHECK(seen == 0);
    sync_wait(cs.execute([&] { thing = std::make_shared<int>(5); }));
    sync_wait(scope.join());
    CHECK(seen == 5);
  }

  TEST_CASE("execute_when: waits apart until it is true, and others pass") {
    stage s;
    synchronized<int> level{0};
    std::vector<int> order;
    const auto when = [&](int least) -> task<> {
      const auto enough = [least](const int& n) { return n >= least; };
      const auto note = [&order, least](int&) { order.push_back(least); };
      co_await level.execute_when(enough, note);
    };
    s.start(when(2));
    s.start(when(1));
    CHECK(level.section().statistics().waiters == 2);
    CHECK_FALSE(level.section().statistics().held);
    CHECK(level.section().statistics().executions == 0);
    const auto raise = [](int& n) { ++n; };
    CHECK(level.try_execute(raise));
    s.here.run();
    CHECK(order == std::vector{1});
    s.start(level.execute(raise));
    s.finish();
    CHECK(order == std::vector{1, 2});
    CHECK(level.section().statistics().waiters == 0);
    CHECK(level.section().statistics().executions == 4);
  }

  TEST_CASE(
      "execute_when: the oldest one whose predicate is true runs next, before what is queued") {
    stage s;
    critical_section cs;
    std::vector<std::string> order;
    bool open = false;
    const auto enter = [&](std::string who) -> task<> {
      const auto may = [&] { return open; };
      const auto body = [&] { order.push_back(who); };
      co_await cs.execute_when(may, body);
    };
    s.start(enter("first"));
    s.start(enter("second"));
    section_guard guard = hold(cs);
    s.scope.spawn(cs.execute([&] { order.emplace_back("queued"); }));
    s.here.run();
    open = true;
    guard.unlock();
    s.finish();
    CHECK(order == std::vector<std::string>{"first", "second", "queued"});
  }

  TEST_CASE("execute_when: what runs may close the predicate of the next one again") {
    stage s;
    synchronized<int> items{0};
    int taken = 0;
    const auto take = [&]() -> task<> {
      const auto any = [](const int& n) { return n > 0; };
      const auto one = [&](int& n) { --n, ++taken; };
      co_await items.execute_when(any, one);
    };
    for (int i = 0; i != 3; ++i) s.start(take());
    for (int i = 1; i != 4; ++i) {
      s.start(items.execute([](int& n) { ++n; }));
      CHECK(taken == i);
    }
    s.finish();
  }

  TEST_CASE("execute_when: a predicate that throws fails its own request and nobody else") {
    stage s;
    critical_section cs;
    int n = 0;
    bool threw = false;
    bool threw_at_once = false;
    bool ran = false;
    const auto bad = [&]() -> bool { return n == 0 ? false : throw std::runtime_error("bad"); };
    const auto good = [&] { return n == 1; };
    s.start(expect<std::runtime_error>(threw, cs.execute_when(bad, nothing)));
    s.start(cs.execute_when(good, [&ran] { ran = true; }));
    s.start(cs.execute([&n] { n = 1; }));
    s.start(expect<std::runtime_error>(threw_at_once, cs.execute_when(bad, nothing)));
    s.finish();
    CHECK(threw);
    CHECK(threw_at_once);
    CHECK(ran);
    CHECK(cs.statistics().executions == 2);
  }

  TEST_CASE("execute_when: withdrawn while it is set aside") {
    stage s;
    manual_clock clock;
    critical_section cs;
    std::stop_source stop;
    bool cancelled = false;
    bool expired = false;
    const auto no = [] { return false; };
    s.start(expect<operation_cancelled>(cancelled,
                                        cs.execute_when(no, nothing, {.stop = stop.get_token()})));
    s.start(expect<deadline_exceeded>(
        expired, cs.execute_when(no, nothing, {.deadline = clock.now() + 1s})));
    CHECK(cs.statistics().waiters == 2);
    stop.request_stop();
    s.here.run();
    CHECK(cancelled);
    CHECK(cs.statistics().waiters == 1);
    clock.advance(1s);
    s.here.run();
    CHECK(expired);
    CHECK(cs.statistics().withdrawn == 2);
    SUBCASE("the section is ended with what they left behind") {}
    SUBCASE("and it is used again") { sync_wait(cs.execute(nothing)); }
    SUBCASE("and closed") { sync_wait(cs.close()); }
    s.finish();
  }

  TEST_CASE("execute_when: withdrawn while it is queued") {
    stage s;
    critical_section cs;
    std::stop_source stop;
    bool cancelled = false;
    int asked = 0;
    const auto no = [&asked] { return ++asked < 0; };
    section_guard guard = hold(cs);
    s.start(expect<operation_cancelled>(cancelled,
                                        cs.execute_when(no, nothing, {.stop = stop.get_token()})));
    stop.request_stop();
    s.here.run();
    CHECK(cancelled);
    guard.unlock();
    CHECK(asked == 0);
    s.finish();
  }

  TEST_CASE("execute_when: the withdrawn one may end the section, wherever it was set aside") {
    for (int round = 0; round != 200; ++round) {
      thread_pool pool(2);
      auto cs = std::make_unique<critical_section>();
      std::stop_source stop;
      bool cancelled = false;
      std::jthread asks_to_go([&] { stop.request_stop(); });
      sync_wait(schedule_on(pool, expect<operation_cancelled>(
                                      cancelled, cs->execute_when([] { return false; }, nothing,
                                                                  {.stop = stop.get_token()}))));
      CHECK(cancelled);
      cs.reset();
    }
  }

  TEST_CASE("execute_when: those withdrawn where nothing else happens are not kept for long") {
    stage s;
    critical_section cs;
    std::array<bool, 3> refused{};
    bool open = false;
    std::size_t ran = 0;
    int cancelled = 0;
    const auto is_open = [&open] { return open; };
    const auto note = [&ran] { ++ran; };
    const auto comes_and_goes = [&] {
      std::stop_source stop;
      bool went = false;
      s.start(expect<operation_cancelled>(
          went, cs.execute_when(is_open, note, {.stop = stop.get_token()})));
      stop.request_stop();
      s.here.run();
      cancelled += went ? 1 : 0;
    };
    for (bool& r : refused) {
      s.start(expect<section_closed>(r, cs.execute_when(is_open, note)));
      comes_and_goes();
    }
    for (int i = 0; i != 500; ++i) comes_and_goes();
    CHECK(cancelled == 503);
    CHECK(cs.statistics().waiters == refused.size());
    // Each that there is, in the ring or a spare one, has a share of the counts.
    const auto& counts = detail::section_access::core(cs).stand_ins();
    CHECK(counts.shares.load() < 30);
    SUBCASE("the others run as ever") {
      open = true;
      s.start(cs.execute(nothing));
      CHECK(ran == refused.size());
    }
    SUBCASE("or are refused") {
      s.start(cs.close());
      CHECK(refused == std::array{true, true, true});
      CHECK(ran == 0);
    }
    s.finish();
    CHECK(cs.statistics().waiters == 0);
  }

  TEST_CASE("execute_when: a section that closes refuses those whose predicate is still false") {
    stage s;
    critical_section cs;
    bool open = false;
    bool refused = false;
    bool ran = false;
    const auto no = [] { return false; };
    const auto is_open = [&open] { return open; };
    s.start(expect<section_closed>(refused, cs.execute_when(no, nothing)));
    s.start(cs.execute_when(is_open, [&ran] { ran = true; }));
    section_guard guard = hold(cs);
    s.start(cs.close());
    open = true;
    guard.unlock();
    s.finish();
    CHECK(refused);
    CHECK(ran);
    CHECK(cs.statistics().refused == 1);
    CHECK(cs.statistics().waiters == 0);
  }

  TEST_CASE("execute_when: re-entry is refused, in a predicate too") {
    critical_section a;
    const auto again = [&]() -> task<> { co_await a.execute_when([] { return true; }, nothing); };
    CHECK_THROWS_AS(sync_wait(a.execute(again)), reentry_error);
    bool again_in_predicate = false;
    const auto asks = [&] {
      try {
        sync_wait(a.execute(nothing));
      } catch (const reentry_error&) {
        again_in_predicate = true;
      }
      return true;
    };
    sync_wait(a.execute_when(asks, nothing));
    CHECK(again_in_predicate);
  }

  TEST_CASE("execute_when: such a wait closes no cycle, set aside or queued, whoever waits last") {
    for (const int turns_later : {0, 1, 2}) {
      CAPTURE(turns_later);
      stage s;
      critical_section a, b;
      std::stop_source stop;
      const std::stop_token token = stop.get_token();
      int asked = 0;
      bool cancelled = false;
      bool over = false;
      const auto no = [&asked] { return ++asked < 0; };
      const auto holds_a = [&]() -> task<> {
        const section_guard of_a = co_await a.lock();
        for (int i = 0; i != turns_later; ++i) co_await yield();
        co_await expect<operation_cancelled>(cancelled,
                                             b.execute_when(no, nothing, {.stop = token}));
      };
      const auto holds_b = [&]() -> task<> {
        const section_guard of_b = co_await b.lock();
        co_await yield();
        co_await a.execute([&over] { over = true; });
      };
      s.scope.spawn(holds_a());
      s.scope.spawn(holds_b());
      s.here.run();
      // Set aside before b was locked, or queued behind.
      CHECK(asked == (turns_later == 0 ? 1 : 0));
      CHECK(a.statistics().waiters == 1);
      CHECK(b.statistics().waiters == 1);
      CHECK_FALSE(over);
      stop.request_stop();
      s.finish();
      CHECK(cancelled);
      CHECK(over);
    }
  }

  TEST_CASE("execute_when: a body that waits keeps the section, and results come back") {
    stage s;
    critical_section cs;
    support::gate gate;
    bool open = false;
    int got = 0;
    const auto ask = [&]() -> task<> {
      const auto may = [&] { return open; };
      const auto body = [&]() -> task<int> {
        co_await gate.passed();
        co_return 3;
      };
      got = co_await cs.execute_when(may, body);
    };
    s.start(ask());
    s.start(cs.execute([&open] { open = true; }));
    CHECK(cs.statistics().held);
    gate.open();
    s.finish();
    CHECK(got == 3);
  }

  TEST_CASE("execute_when: bodies and predicates of a bound section run on its executor") {
    stage s;
    loop gui;
    critical_section cs({.executor = gui});
    bool open = false;
    bool ran = false;
    std::size_t elsewhere = 0;
    const auto may = [&] {
      elsewhere += gui.here() ? 0 : 1;
      return open;
    };
    const auto body = [&] { ran = gui.here(); };
    s.start(cs.execute_when(may, body));
    gui.run();
    s.start(cs.execute([&open] { open = true; }));
    gui.run();
    s.finish();
    CHECK(ran);
    CHECK(elsewhere == 0);
  }

  TEST_CASE("execute_when: on a bound section, the oldest one goes while the body after it runs") {
    stage s;
    loop gui;
    critical_section cs({.executor = gui});
    std::stop_source stop;
    bool cancelled = false;
    bool open = false;
    std::uint64_t withdrawn = 0;
    const auto no = [] { return false; };
    const auto is_open = [&open] { return open; };
    const auto body = [&] {
      stop.request_stop();
      withdrawn = cs.statistics().withdrawn;
    };
    s.start(expect<operation_cancelled>(cancelled,
                                        cs.execute_when(no, nothing, {.stop = stop.get_token()})));
    gui.run();
    SUBCASE("which was set aside too") {
      s.start(cs.execute_when(is_open, body));
      gui.run();
    }
    // Unlocked elsewhere, so the oldest one takes the section there.
    section_guard guard = sync_wait(cs.lock());
    guard.detach();
    SUBCASE("which came later") { s.start(cs.execute(body)); }
    open = true;
    guard.unlock();
    gui.run();
    CHECK(withdrawn == 1);
    s.finish();
    CHECK(cancelled);
  }

  TEST_CASE("execute_when: a guard's hold counts as a body, and so does one of several sections") {
    stage s;
    critical_section cs;
    critical_section other;
    int n = 0;
    int ran = 0;
    for (int least = 1; least != 4; ++least) {
      const auto enough = [&n, least] { return n >= least; };
      const auto note = [&ran] { ++ran; };
      s.start(cs.execute_when(enough, note));
    }
    section_guard guard = hold(cs);
    n = 1;
    guard.unlock();
    s.here.run();
    CHECK(ran == 1);
    s.start(execute(std::tie(cs, other), [&n] { n = 2; }));
    CHECK(ran == 2);
    s.start(cs.execute([&n]() -> task<> {
      n = 3;
      co_await yield();
    }));
    s.finish();
    CHECK(ran == 3);
  }

  TEST_CASE("execute_when: a bounded buffer loses nothing and keeps its order, on four threads") {
    thread_pool pool(4);
    async_scope scope{{.executor = pool}};
    using buffer_of_items = std::vector<std::pair<std::size_t, int>>;  // whose, and which
    synchronized<buffer_of_items> buffer;
    constexpr int producers = 3;
    constexpr int items = 2000;
    std::array<std::vector<int>, producers> taken;  // of each
    const auto produce = [&](std::size_t who) -> task<> {
      for (int i = 0; i != items; ++i) {
        const auto room = [](const buffer_of_items& b) { return b.size() < 4; };
        const auto put = [item = std::pair(who, i)](buffer_of_items& b) { b.push_back(item); };
        co_await buffer.execute_when(room, put);
      }
    };
    const auto consume = [&]() -> task<> {
      for (int i = 0; i != items; ++i) {
        const auto any = [](const buffer_of_items& b) { return !b.empty(); };
        const auto take = [&taken](buffer_of_items& b) {
          const auto [who, i] = b.front();
          b.erase(b.begin());
          taken[who].push_back(i);
        };
        co_await buffer.execute_when(any, take);
      }
    };
    for (std::size_t i = 0; i != producers; ++i) scope.spawn(produce(i));
    for (int i = 0; i != producers; ++i) scope.spawn(consume());
    sync_wait(scope.join());
    std::vector<int> all(items);
    std::iota(all.begin(), all.end(), 0);
    for (const std::vector<int>& of_one : taken) CHECK(of_one == all);
    CHECK(buffer.section().statistics().waiters == 0);
  }

  TEST_CASE("execute_when: who is set aside is among the most that ever waited") {
    critical_section cs;
    bool open = false;
    const auto is_open = [&] { return open; };
    async_scope scope;
    for (int i = 0; i != 3; ++i) scope.spawn(cs.execute_when(is_open, [] {}));
    CHECK(cs.statistics().waiters == 3);
    CHECK(cs.statistics().most_waiters == 3);
    {
      section_guard held = support::hold(cs);
      for (int i = 0; i != 2; ++i) scope.spawn(cs.execute([] {}));
      open = true;
    }
    sync_wait(scope.join());
    CHECK(cs.statistics().waiters == 0);
    CHECK(cs.statistics().most_waiters == 5);
  }

  TEST_CASE("execute_when: what statistics said of the most that waited stays, whoever leaves") {
    critical_section cs;
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    async_scope scope;
    scope.spawn(cs.execute_when([] { return false; }, [] {}, {.stop = token}));
    {
      section_guard held = support::hold(cs);
      for (int i = 0; i != 5; ++i) scope.spawn(cs.execute([] {}));
      CHECK(cs.statistics().most_waiters == 6);
      stop.request_stop();
      CHECK(cs.statistics().waiters == 5);
      CHECK(cs.statistics().most_waiters == 6);
    }
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK(cs.statistics().most_waiters == 6);
  }
}
