// withdrawal.cpp - a request that waits is withdrawn by its token or its deadline, at once.

#include "support/ending.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::ending;
using support::hold;
using support::loop;

namespace {

const auto nothing = [] {};

}  // namespace

TEST_SUITE("section") {
  TEST_CASE(
      "withdrawal: a stopped token or a past deadline refuses at once, and nothing is claimed") {
    critical_section cs{"ledger"};
    critical_section other;
    resource r;
    std::stop_source stop;
    stop.request_stop();
    const std::stop_token token = stop.get_token();
    const execute_options stopped{.uses = r, .stop = token};
    CHECK_THROWS_AS(sync_wait(cs.execute(nothing, stopped)), operation_cancelled);
    const execute_options late{.uses = r, .deadline = std::chrono::steady_clock::now() - 1s};
    CHECK_THROWS_AS(sync_wait(cs.execute(nothing, late)), deadline_exceeded);
    const execute_options both{.stop = token, .deadline = std::chrono::steady_clock::now() - 1s};
    CHECK_THROWS_AS(sync_wait(cs.execute(nothing, both)), operation_cancelled);
    CHECK_THROWS_AS(sync_wait(cs.lock(stopped)), operation_cancelled);
    CHECK_THROWS_AS(sync_wait(cs.execute_when([] { return true; }, nothing, stopped)),
                    operation_cancelled);
    CHECK_THROWS_AS(sync_wait(cs.submit(nothing, stopped)), operation_cancelled);
    CHECK_THROWS_AS(cs.post(nothing, late), deadline_exceeded);
    CHECK_THROWS_AS(sync_wait(execute(std::tie(cs, other), nothing, stopped)), operation_cancelled);
    CHECK(cs.statistics().executions == 0);
    CHECK(cs.statistics().withdrawn + other.statistics().withdrawn == 8);
    const execute_options mine{.uses = r};
    CHECK_NOTHROW(sync_wait(other.execute(nothing, mine)));
  }

  TEST_CASE("withdrawal: the error names the section") {
    critical_section cs{"ledger"};
    std::stop_source stop;
    stop.request_stop();
    const std::stop_token token = stop.get_token();
    const execute_options stopped{.stop = token};
    CHECK_THROWS_WITH_AS(sync_wait(cs.execute(nothing, stopped)), doctest::Contains("\"ledger\""),
                         operation_cancelled);
  }

  TEST_CASE("withdrawal: re-entry is seen before the token is looked at") {
    critical_section cs;
    std::stop_source stop;
    stop.request_stop();
    const auto again = [&]() -> task<> {
      const std::stop_token token = stop.get_token();
      const execute_options stopped{.stop = token};
      co_await cs.execute(nothing, stopped);
    };
    CHECK_THROWS_AS(sync_wait(cs.execute(again)), reentry_error);
  }

  TEST_CASE("withdrawal: a token is given back when the body begins, whatever it leaves behind") {
    critical_section cs;
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    const execute_options options{.stop = token};
    const auto referred_to = [] { return detail::here().kept_token->uses; };
    sync_wait([&]() -> task<> {
      for (int i = 0; i != 100; ++i) {  // kept in the end, where sections can be
        auto made = cs.execute(referred_to, options);
        CHECK(referred_to() == 1);
        const std::uint32_t within = co_await std::move(made);
        CHECK(within == 0);
        CHECK_THROWS_AS(
            co_await cs.execute([] { throw std::runtime_error("of the body"); }, options),
            std::runtime_error);
        CHECK(referred_to() == 0);
      }
      const std::string text = co_await cs.execute([] { return std::string(100, 'x'); }, options);
      CHECK(text == std::string(100, 'x'));
      CHECK(referred_to() == 0);
      stop.request_stop();
      CHECK_THROWS_AS(co_await cs.execute(referred_to, options), operation_cancelled);
      CHECK(referred_to() == 0);
    }());
  }

  TEST_CASE("withdrawal: a token may be a temporary, and the request may wait to be awaited") {
    critical_section cs;
    std::stop_source stop;
    auto later = cs.execute(nothing, {.stop = stop.get_token()});
    auto never_awaited = cs.execute(nothing, {.stop = stop.get_token()});
    auto moved = std::move(later);
    stop.request_stop();
    CHECK_THROWS_AS(sync_wait(std::move(moved)), operation_cancelled);
  }

  TEST_CASE(
      "withdrawal: at the head, in the middle and at the tail, while a guard holds the section") {
    for (const std::size_t which : {0u, 2u, 4u}) {
      critical_section cs;
      loop here;
      async_scope scope{{.executor = here}};
      std::vector<int> order;
      std::array<ending, 5> ends;
      std::array<std::stop_source, 5> stops;
      section_guard guard = hold(cs);
      for (int i = 0; i != 5; ++i) {
        const auto at = static_cast<std::size_t>(i);
        scope.spawn(ends[at].of(
            cs.execute([&order, i] { order.push_back(i); }, {.stop = stops[at].get_token()})));
      }
      here.run();
      CHECK(cs.statistics().waiters == 5);
      stops[which].request_stop();
      CHECK(ends[which].how.empty());  // never inside the call
      CHECK(cs.statistics().withdrawn == 1);
      CHECK(cs.statistics().waiters == 4);
      here.run();
      CHECK(ends[which].how == "cancelled");
      CHECK(cs.statistics().held);  // the guard's still: no flag of somebody else's is cleared
      CHECK_FALSE(cs.try_execute(nothing));
      CHECK(order.empty());
      guard.unlock();
      here.run();
      CHECK(order.size() == 4);
      CHECK(std::is_sorted(order.begin(), order.end()));
      sync_wait(scope.join());
      CHECK(cs.statistics().executions == 5);
      CHECK_FALSE(cs.statistics().held);
    }
  }

  TEST_CASE("withdrawal: a deadline comes while a body holds the section") {
    manual_clock clock;
    critical_section cs;
    loop here;
    async_scope scope{{.executor = here}};
    ending first;
    ending second;
    section_guard guard = hold(cs);
    scope.spawn(first.of(cs.execute(nothing, {.deadline = clock.now() + 10ms})));
    scope.spawn(second.of(cs.lock({.deadline = clock.now() + 20ms})));
    here.run();
    clock.advance(10ms);
    here.run();
    CHECK(first.how == "expired");
    CHECK(second.how.empty());
    guard.unlock();
    here.run();
    CHECK(second.how == "ran");
    CHECK(clock.pending() == 0);
    sync_wait(scope.join());
  }

  TEST_CASE("withdrawal: without an executor the coroutine goes on on the shared pool") {
    critical_section cs;
    std::stop_source stop;
    section_guard guard = hold(cs);
    executor_ref went_on_on;
    const auto ask = [&]() -> task<> {
      try {
        co_await cs.execute(nothing, {.stop = stop.get_token()});
      } catch (const operation_cancelled&) {
        went_on_on = detail::here().runs_on;
      }
    };
    async_scope scope;
    // It waits when this returns: a thread on its way into the line would go on itself.
    scope.spawn(ask());
    stop.request_stop();
    sync_wait(scope.join());
    CHECK(went_on_on == executor_ref(thread_pool::shared()));
    guard.unlock();
  }

  TEST_CASE("withdrawal: resume_on is where the error arrives, too") {
    critical_section cs;
    loop here;
    loop there;
    async_scope scope{{.executor = here}};
    std::stop_source stop;
    ending end;
    section_guard guard = hold(cs);
    scope.spawn(end.of(cs.execute(nothing, {.stop = stop.get_token(), .resume_on = there})));
    here.run();
    stop.request_stop();
    CHECK(here.run() == 0);
    there.run();
    CHECK(end.how == "cancelled");
    guard.unlock();
    here.run();
    sync_wait(scope.join());
  }

  TEST_CASE("withdrawal: a body that runs is never stopped") {
    critical_section cs;
    support::gate gate;
    std::stop_source stop;
    ending end;
    async_scope scope;
    const auto body = [&]() -> task<> { co_await gate.passed(); };
    scope.spawn(end.of(cs.execute(body, {.stop = stop.get_token()})));
    stop.request_stop();
    CHECK(end.how.empty());
    gate.open();
    CHECK(end.how == "ran");
    sync_wait(scope.join());
    CHECK(cs.statistics().withdrawn == 0);
  }

  TEST_CASE(
      "withdrawal: a request that waits for its section's executor can go, and the section then") {
    manual_clock clock;
    loop gui;
    loop here;
    async_scope scope{{.executor = here}};
    ending end;
    bool ran = false;
    auto cs = std::make_unique<critical_section>(section_options{.executor = gui});
    scope.spawn(end.of(cs->execute([&] { ran = true; }, {.deadline = clock.now() + 1ms})));
    here.run();
    CHECK(gui.pending() == 1);
    clock.advance(1ms);
    here.run();
    CHECK(end.how == "expired");
    CHECK_FALSE(cs->statistics().held);
    cs.reset();  // nothing of it is left in the executor
    gui.run();
    CHECK_FALSE(ran);
    sync_wait(scope.join());
  }

  TEST_CASE(
      "withdrawal: those behind one that waited for the section's executor are served there") {
    manual_clock clock;
    loop gui;
    loop here;
    async_scope scope{{.executor = here}};
    std::array<ending, 3> ends;
    int ran = 0;
    critical_section cs({.executor = gui});
    scope.spawn(ends[0].of(cs.execute([&] { ran += 1; }, {.deadline = clock.now() + 1ms})));
    scope.spawn(ends[1].of(cs.execute([&] { ran += 10; })));
    scope.spawn(ends[2].of(cs.execute([&] { ran += 100; }, {.deadline = clock.now() + 1ms})));
    here.run();
    clock.advance(1ms);
    here.run();
    CHECK(ends[0].how == "expired");
    CHECK(ends[2].how == "expired");
    CHECK(ran == 0);
    gui.run();
    here.run();
    CHECK(ends[1].how == "ran");
    CHECK(ran == 10);
    sync_wait(scope.join());
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("withdrawal: a request for several sections leaves those that it holds") {
    critical_section a;
    critical_section b;
    loop here;
    async_scope scope{{.executor = here}};
    std::stop_source stop;
    ending both;
    ending behind;
    section_guard guard = hold(b);
    scope.spawn(both.of(execute(std::tie(a, b), nothing, {.stop = stop.get_token()})));
    scope.spawn(behind.of(a.execute(nothing)));
    here.run();
    CHECK(behind.how.empty());
    stop.request_stop();
    here.run();
    CHECK(both.how == "cancelled");
    CHECK(behind.how == "ran");
    CHECK(a.statistics().executions == 1);
    CHECK(b.statistics().withdrawn == 1);
    guard.unlock();
    here.run();
    sync_wait(scope.join());
    CHECK_FALSE(a.statistics().held);
    CHECK_FALSE(b.statistics().held);
  }

  TEST_CASE("withdrawal: a submitted execution completes its handle") {
    critical_section cs;
    std::stop_source stop;
    section_guard guard = hold(cs);
    auto handle = cs.submit([] { return 1; }, {.stop = stop.get_token()});
    CHECK_FALSE(handle.ready());
    stop.request_stop();
    CHECK_THROWS_AS(sync_wait(handle), operation_cancelled);
    guard.unlock();
    CHECK(cs.statistics().executions == 1);
  }

  TEST_CASE("withdrawal: what a post was withdrawn with goes to on_unobserved_error") {
    manual_clock clock;
    support::unobserved errors;
    critical_section cs{"posted"};
    section_guard guard = hold(cs);
    cs.post(nothing, {.deadline = clock.now() + 1ms});
    clock.advance(1ms);
    while (errors.seen().empty()) std::this_thread::yield();  // it ends on the shared pool
    guard.unlock();
    CHECK(errors.seen().size() == 1);
    CHECK(errors.seen().front().section == "posted");
  }

  TEST_CASE("withdrawal: claims made when it was accepted stay") {
    critical_section cs;
    critical_section other;
    resource r;
    loop here;
    async_scope scope{{.executor = here}};
    std::stop_source stop;
    ending end;
    section_guard guard = hold(cs);
    scope.spawn(end.of(cs.execute(nothing, {.uses = r, .stop = stop.get_token()})));
    here.run();
    stop.request_stop();
    here.run();
    CHECK(end.how == "cancelled");
    CHECK_THROWS_AS(sync_wait(other.execute(nothing, {.uses = r})), exclusive_access_error);
    guard.unlock();
    sync_wait(scope.join());
  }

  TEST_CASE("withdrawal: those of several sections stay, too, if a scope was stopped") {
    critical_section a;
    critical_section b;
    critical_section other;
    resource r;
    async_scope scope;
    section_guard guard = hold(b);
    const auto asks = [&]() -> task<> {
      const execute_options uses_it{.uses = r};
      co_await execute(std::tie(a, b), nothing, uses_it);
    };
    scope.spawn(asks());
    scope.request_stop();
    guard.unlock();
    CHECK_THROWS_AS(sync_wait(scope.join()), operation_cancelled);
    CHECK_THROWS_AS(sync_wait(other.execute(nothing, {.uses = r})), exclusive_access_error);
  }

  TEST_CASE("withdrawal: a wait with a deadline closes no cycle, one with a token does") {
    manual_clock clock;
    critical_section a;
    critical_section b;
    loop here;
    async_scope scope{{.executor = here}};
    support::gate both_hold;
    std::array<std::string, 2> ends;
    std::stop_source stop;
    const auto cross = [&](critical_section& first, critical_section& second, execute_options o,
                           std::string& how) -> task<> {
      section_guard mine = co_await first.lock();
      co_await both_hold.passed();
      ending end;
      co_await end.of(second.execute(nothing, o));
      how = end.how;
    };
    SUBCASE("a deadline") {
      scope.spawn(cross(a, b, {.deadline = clock.now() + 1s}, ends[0]));
      scope.spawn(cross(b, a, {}, ends[1]));
      here.run();
      both_hold.open();
      here.run();
      CHECK(ends[0].empty());
      CHECK(ends[1].empty());
      clock.advance(1s);
      sync_wait(
          scope.join());  // they went on where the gate was opened, and now on the shared pool
      CHECK(ends[0] == "expired");
      CHECK(ends[1] == "ran");
    }
    SUBCASE("a token") {
      const std::stop_token token = stop.get_token();
      scope.spawn(cross(a, b, {.stop = token}, ends[0]));
      scope.spawn(cross(b, a, {}, ends[1]));
      here.run();
      both_hold.open();
      here.run();
      CHECK(ends[0] == "ran");
      CHECK(ends[1].find("never end") != std::string::npos);
    }
    sync_wait(scope.join());
  }

  TEST_CASE("withdrawal: whoever is withdrawn last may end the section") {
    std::stop_source stop;
    loop here;
    async_scope scope{{.executor = here}};
    auto cs = std::make_unique<critical_section>();
    ending end;
    section_guard guard = hold(*cs);
    scope.spawn(end.of(cs->execute(nothing, {.stop = stop.get_token()})));
    here.run();
    stop.request_stop();
    guard.unlock();
    here.run();
    CHECK(end.how == "cancelled");
    cs.reset();
    sync_wait(scope.join());
  }

  TEST_CASE("withdrawal: closing waits for nobody who was withdrawn") {
    critical_section cs;
    loop here;
    async_scope scope{{.executor = here}};
    std::stop_source stop;
    ending end;
    ending closing;
    section_guard guard = hold(cs);
    scope.spawn(end.of(cs.execute(nothing, {.stop = stop.get_token()})));
    here.run();
    scope.spawn(closing.of(cs.close()));
    here.run();
    stop.request_stop();
    guard.unlock();
    here.run();
    CHECK(end.how == "cancelled");
    CHECK(closing.how == "ran");
    sync_wait(scope.join());
  }

  TEST_CASE("withdrawal: from several sections, one of which ends before it goes on") {
    critical_section a;
    auto b = std::make_unique<critical_section>();
    critical_section other;
    resource r;
    loop here;
    async_scope scope{{.executor = here}};
    std::stop_source stop;
    ending both;
    section_guard guard = hold(*b);
    scope.spawn(both.of(execute(std::tie(a, *b), nothing, {.uses = r, .stop = stop.get_token()})));
    here.run();
    stop.request_stop();
    CHECK(both.how.empty());
    guard.unlock();
    sync_wait(b->close());
    b.reset();
    here.run();
    CHECK(both.how == "cancelled");
    CHECK_FALSE(a.statistics().held);
    sync_wait(scope.join());
    sync_wait(other.execute(nothing, {.uses = r}));  // a claim ends with its section
  }
}
