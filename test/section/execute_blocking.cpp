// execute_blocking.cpp - a plain thread waits in a section's line, and is served as everybody else.

#include "support/counted.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/stoppable.hpp"

#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <doctest/doctest.h>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
using support::counted;
using support::foreign;
using support::hold;
using support::loop;
using support::wait_for_waiters;

namespace {

const auto nothing = [] {};

// After those that wait now nobody else is served by this thread.
void fill_turn(critical_section& cs) {
  for (std::size_t n = cs.statistics().waiters; n != 32; ++n) cs.post(nothing);
}

// What `f` ended with, by name.
template <class F>
std::string ending_of(F f) {
  try {
    f();
    return "ran";
  } catch (const operation_cancelled&) {
    return "cancelled";
  } catch (const deadline_exceeded&) {
    return "expired";
  } catch (const section_closed&) {
    return "closed";
  } catch (const section_full&) {
    return "full";
  } catch (const reentry_error&) {
    return "reentry";
  } catch (const deadlock_error&) {
    return "deadlock";
  }
}

// A thread that asks once.
class asker {
 public:
  template <class Body>
  asker(critical_section& cs, Body body, execute_options options = {})
      : thread_([this, &cs, body = std::move(body), options]() mutable {
          id_ = std::this_thread::get_id();
          how_ = ending_of([&] { cs.execute_blocking(std::move(body), options); });
        }) {}

  // How it ended.
  const std::string& join() {
    thread_.join();
    return how_;
  }
  std::thread::id id() const { return id_; }

 private:
  std::string how_;
  std::thread::id id_;
  std::thread thread_;
};

// The same, and it waits in line when this returns.
template <class Body>
std::unique_ptr<asker> ask_in_line(critical_section& cs, Body body, execute_options options = {}) {
  const std::size_t before = cs.statistics().waiters;
  auto a = std::make_unique<asker>(cs, std::move(body), options);
  wait_for_waiters(cs, before + 1);
  return a;
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("execute_blocking: gives back what the body returns") {
    critical_section cs;
    int x = 1;
    static_assert(std::is_same_v<decltype(cs.execute_blocking([] { return 1; })), int>);
    static_assert(std::is_same_v<decltype(cs.execute_blocking([&]() -> int& { return x; })), int&>);
    static_assert(std::is_void_v<decltype(cs.execute_blocking(nothing))>);
    CHECK(cs.execute_blocking([] { return 4; }) == 4);
    CHECK(&cs.execute_blocking([&]() -> int& { return x; }) == &x);
    CHECK(*cs.execute_blocking([] { return std::make_unique<int>(6); }) == 6);
    cs.execute_blocking([&] { x = 2; });
    CHECK(x == 2);
    CHECK(cs.execute_blocking([] { return counted(5); }).value == 5);
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("execute_blocking: throws what the body throws, and leaves the section usable") {
    critical_section cs;
    CHECK_THROWS_AS(cs.execute_blocking([]() -> int { throw std::runtime_error("x"); }),
                    std::runtime_error);
    CHECK(cs.execute_blocking([] { return 1; }) == 1);
    CHECK(cs.statistics().executions == 2);
  }

  TEST_CASE("execute_blocking: moves an rvalue body, whatever its captures, and copies an lvalue") {
    critical_section cs;
    CHECK(cs.execute_blocking([s = std::string(100, 'x'), c = counted(1)] {
      return s.size() + static_cast<std::size_t>(c.value);
    }) == 101);
    CHECK(counted::alive() == 0);
    CHECK(cs.execute_blocking([p = std::make_unique<int>(7)] { return *p; }) == 7);
    auto counts = [n = 0]() mutable { return ++n; };
    CHECK(cs.execute_blocking(counts) == 1);
    CHECK(cs.execute_blocking(counts) == 1);
    CHECK(cs.execute_blocking(std::ref(counts)) == 1);
    CHECK(counts() == 2);
  }

  TEST_CASE("execute_blocking: runs on the calling thread if the section is idle") {
    critical_section cs;
    CHECK(cs.execute_blocking([] { return std::this_thread::get_id(); }) ==
          std::this_thread::get_id());
  }

  TEST_CASE("execute_blocking: threads are served in the order in which they came") {
    critical_section cs;
    section_guard busy = hold(cs);
    std::vector<int> order;
    std::vector<std::unique_ptr<asker>> threads;
    for (int i = 0; i != 5; ++i) {
      threads.push_back(ask_in_line(cs, [&order, i] { order.push_back(i); }));
    }
    CHECK(cs.statistics().waiters == 5);
    CHECK(order.empty());
    busy.unlock();
    for (auto& t : threads) CHECK(t->join() == "ran");
    CHECK(order == std::vector<int>{0, 1, 2, 3, 4});
    CHECK(cs.statistics().executions == 6);
    CHECK(cs.statistics().most_waiters == 5);
    CHECK(cs.statistics().waiters == 0);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("execute_blocking: threads and coroutines stand in one line") {
    critical_section cs;
    section_guard busy = hold(cs);
    async_scope scope;
    std::vector<int> order;
    const auto ask = [&](int i) -> task<> {
      co_await cs.execute([&order, i] { order.push_back(i); });
    };
    std::vector<std::unique_ptr<asker>> threads;
    for (int i = 0; i != 6; i += 2) {
      scope.spawn(ask(i));
      threads.push_back(ask_in_line(cs, [&order, i] { order.push_back(i + 1); }));
    }
    busy.unlock();
    for (auto& t : threads) CHECK(t->join() == "ran");
    sync_wait(scope.join());
    CHECK(order == std::vector<int>{0, 1, 2, 3, 4, 5});
  }

  TEST_CASE("execute_blocking: serves who came meanwhile, and they go on before it returns") {
    critical_section cs;
    std::vector<int> order;
    bool resumed = false;
    std::optional<foreign> other;
    std::thread asks;
    support::serve_here([&] {
      cs.execute_blocking([&] {
        order.push_back(1);
        asks = std::thread([&] {
          other.emplace([](critical_section& s, std::vector<int>& seen, bool& back) -> foreign {
            co_await s.execute([&seen] { seen.push_back(2); });
            back = true;
          }(cs, order, resumed));
        });
        wait_for_waiters(cs, 1);
        asks.join();
      });
      CHECK(order == std::vector<int>{1, 2});
      CHECK(resumed);
    });
  }

  TEST_CASE("execute_blocking: a stop ends the wait, and only that of a body that does not run") {
    critical_section cs;
    std::stop_source stop;
    stop.request_stop();
    CHECK_THROWS_AS(cs.execute_blocking(nothing, {.stop = stop.get_token()}), operation_cancelled);
    stop = {};
    const std::stop_token token = stop.get_token();
    section_guard busy = hold(cs);
    bool ran = false;
    auto first = ask_in_line(cs, [&] { ran = true; }, {.stop = token});
    auto second = ask_in_line(cs, nothing);
    stop.request_stop();
    CHECK(first->join() == "cancelled");
    CHECK(cs.statistics().held);
    CHECK(cs.statistics().waiters == 1);
    busy.unlock();
    CHECK(second->join() == "ran");
    CHECK_FALSE(ran);
    CHECK(cs.statistics().withdrawn == 2);
    stop = {};
    cs.execute_blocking([&] { CHECK(stop.request_stop()); }, {.stop = stop.get_token()});
  }

  TEST_CASE("execute_blocking: a deadline ends the wait") {
    manual_clock clock;
    critical_section cs;
    CHECK_THROWS_AS(cs.execute_blocking(nothing, {.deadline = clock.now() - 1ms}),
                    deadline_exceeded);
    section_guard busy = hold(cs);
    auto late = ask_in_line(cs, nothing, {.deadline = clock.now() + 10ms});
    auto early = ask_in_line(cs, nothing, {.deadline = clock.now() + 20ms});
    clock.advance(10ms);
    CHECK(late->join() == "expired");
    busy.unlock();
    CHECK(early->join() == "ran");
    CHECK(clock.pending() == 0);
  }

  TEST_CASE("execute_blocking: below a when_any the wait ends when that is stopped") {
    critical_section cs;
    const section_guard busy = hold(cs);
    std::stop_source stop;
    std::string how;
    std::thread waits([&] {
      const support::stoppable below(stop.get_token());
      how = ending_of([&] { cs.execute_blocking(nothing); });
    });
    wait_for_waiters(cs, 1);
    stop.request_stop();
    waits.join();
    CHECK(how == "cancelled");
  }

  TEST_CASE("execute_blocking: resume_on is not looked at") {
    critical_section cs;
    loop never_run;
    CHECK(cs.execute_blocking([] { return 1; }, {.resume_on = never_run}) == 1);
    CHECK(cs.execute_blocking([](stream&) { return 2; }, {.resume_on = never_run}) == 2);
    section_guard busy = hold(cs);
    auto waits = ask_in_line(cs, nothing, {.resume_on = never_run});
    std::stop_source stop;
    const std::stop_token token = stop.get_token();
    auto goes = ask_in_line(cs, nothing, {.stop = token, .resume_on = never_run});
    stop.request_stop();
    CHECK(goes->join() == "cancelled");
    busy.unlock();
    CHECK(waits->join() == "ran");
    CHECK(never_run.pending() == 0);
  }

  TEST_CASE("execute_blocking: is refused when the section is closed") {
    critical_section cs{"ledger"};
    sync_wait(cs.close());
    CHECK_THROWS_WITH_AS(cs.execute_blocking(nothing), doctest::Contains("\"ledger\""),
                         section_closed);
    CHECK(cs.statistics().refused == 1);
  }

  TEST_CASE("execute_blocking: who is in line before a close is served") {
    critical_section cs;
    section_guard busy = hold(cs);
    bool ran = false;
    auto waits = ask_in_line(cs, [&] { ran = true; });
    async_scope scope;
    scope.spawn(cs.close());
    CHECK_THROWS_AS(cs.execute_blocking(nothing), section_closed);
    busy.unlock();
    CHECK(waits->join() == "ran");
    sync_wait(scope.join());
    CHECK(ran);
  }

  TEST_CASE("execute_blocking: is refused when as many wait as may") {
    critical_section cs({.max_waiters = 1});
    section_guard busy = hold(cs);
    auto waits = ask_in_line(cs, nothing);
    CHECK_THROWS_AS(cs.execute_blocking(nothing), section_full);
    busy.unlock();
    CHECK(waits->join() == "ran");
    CHECK(cs.statistics().refused == 1);
    CHECK(cs.execute_blocking([] { return 2; }) == 2);
  }

  TEST_CASE("execute_blocking: waits outside until there is room") {
    critical_section cs({.max_waiters = 1, .on_full = when_full::wait_outside});
    section_guard busy = hold(cs);
    std::vector<int> order;
    auto in_line = ask_in_line(cs, [&] { order.push_back(1); });
    asker outside(cs, [&] { order.push_back(2); });
    busy.unlock();
    CHECK(in_line->join() == "ran");
    CHECK(outside.join() == "ran");
    std::sort(order.begin(), order.end());  // nothing says when the second one came
    CHECK(order == std::vector<int>{1, 2});
  }

  TEST_CASE("execute_blocking: inside the same section it is a re-entry, with the way there") {
    critical_section a{"a"};
    critical_section b{"b"};
    CHECK_THROWS_AS(a.execute_blocking([&] { a.execute_blocking(nothing); }), reentry_error);
    try {
      a.execute_blocking(
          [&] { b.execute_blocking([&] { a.execute_blocking(nothing, {.name = "again"}); }); });
      FAIL("it was let in");
    } catch (const reentry_error& e) {
      REQUIRE(e.path().size() == 3);
      CHECK(e.path()[0].section == "a");
      CHECK(e.path()[1].section == "b");
      CHECK(e.path()[2].section == "a");
      CHECK(std::string(e.path()[2].where.file_name()).ends_with("execute_blocking.cpp"));
    }
    const auto in_a_task = [&]() -> task<> {
      a.execute_blocking(nothing);
      co_return;
    };
    CHECK_THROWS_AS(sync_wait(a.execute(in_a_task)), reentry_error);
    const section_guard held = std::move(b.try_lock().value());
    CHECK_THROWS_AS(b.execute_blocking(nothing), reentry_error);
    CHECK(a.execute_blocking([] { return 1; }) == 1);
  }

  TEST_CASE("execute_blocking: two threads that hold one and want the other do not wait for ever") {
    critical_section a{"a"};
    critical_section b{"b"};
    std::latch both_in(2);
    const auto cross = [&](critical_section& first, critical_section& second) {
      return ending_of([&] {
        first.execute_blocking([&] {
          both_in.arrive_and_wait();
          second.execute_blocking(nothing);
        });
      });
    };
    std::string one;
    std::string other;
    std::thread t([&] { one = cross(a, b); });
    other = cross(b, a);
    t.join();
    CHECK((one == "deadlock" || other == "deadlock"));
    CHECK((one == "ran" || one == "deadlock"));
    CHECK((other == "ran" || other == "deadlock"));
    CHECK(a.execute_blocking([] { return 1; }) == 1);
    CHECK(b.execute_blocking([] { return 1; }) == 1);
  }

  TEST_CASE("execute_blocking: guards of a thread are its chain's, also across two threads") {
    critical_section a{"a"};
    critical_section b{"b"};
    std::string how;
    section_guard mine = std::move(a.try_lock().value());
    std::thread other([&] {
      section_guard theirs = std::move(b.try_lock().value());
      how = ending_of([&] { a.execute_blocking(nothing); });
    });
    wait_for_waiters(a, 1);
    // Who is in line first need not be known to the graph first.
    const std::string ours = ending_of([&] { b.execute_blocking(nothing); });
    mine.unlock();
    other.join();
    CHECK(((ours == "deadlock" && how == "ran") || (ours == "ran" && how == "deadlock")));
  }

  TEST_CASE("execute_blocking: claims what it uses, and is refused what others have claimed") {
    critical_section cs;
    critical_section other;
    resource r{"account"};
    cs.execute_blocking(nothing, {.uses = r});
    bool ran = false;
    CHECK_THROWS_AS(other.execute_blocking([&] { ran = true; }, {.uses = r}),
                    exclusive_access_error);
    CHECK_FALSE(ran);
    CHECK(other.statistics().refused == 1);
    CHECK_NOTHROW(cs.execute_blocking(nothing, {.uses = r}));
    section_guard busy = hold(cs);
    resource later{"later"};
    auto waits = ask_in_line(cs, nothing, {.uses = later});
    CHECK_THROWS_AS(other.execute_blocking(nothing, {.uses = later}), exclusive_access_error);
    busy.unlock();
    CHECK(waits->join() == "ran");
  }

  TEST_CASE("execute_blocking: is recorded with its name, and with where it was asked for") {
    registry::keep_executions(4);
    critical_section cs{"ledger"};
    cs.execute_blocking(nothing, {.name = "audit"});
    const auto all = registry::executions();
    registry::keep_executions(0);
    REQUIRE(all.size() == 1);
    CHECK(all[0].name == "audit");
    CHECK(all[0].section == "ledger");
    CHECK(std::string(all[0].where.file_name()).ends_with("execute_blocking.cpp"));
  }

  TEST_CASE("execute_blocking: the body of a bound section runs on its executor") {
    loop gui;
    critical_section cs{section_options{.executor = gui}};
    bool right_place = false;
    asker asks(cs, [&] { right_place = gui.here(); });
    while (gui.pending() == 0) std::this_thread::yield();
    CHECK(cs.statistics().held);
    gui.run();
    CHECK(asks.join() == "ran");
    CHECK(right_place);
    bool at_once = false;
    support::serve_here([&] {
      critical_section here{section_options{.executor = detail::here().runs_on}};
      here.execute_blocking([&] { at_once = true; });
    });
    CHECK(at_once);
  }

  TEST_CASE("execute_blocking: many threads ask a section that is bound to a pool") {
    thread_pool pool{2};
    critical_section cs{section_options{.executor = pool}};
    int n = 0;
    std::atomic<int> elsewhere{0};
    std::vector<std::thread> threads;
    for (int t = 0; t != 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i != 200; ++i) {
          cs.execute_blocking([&] {
            ++n;
            if (detail::here().runs_on != executor_ref(pool)) ++elsewhere;
          });
        }
      });
    }
    for (std::thread& t : threads) t.join();
    CHECK(n == 800);
    CHECK(elsewhere == 0);
  }

  TEST_CASE(
      "execute_blocking: goes while its section waits for an executor, and the section then") {
    manual_clock clock;
    loop gui;
    auto cs = std::make_unique<critical_section>(section_options{.executor = gui});
    bool ran = false;
    asker asks(*cs, [&] { ran = true; }, {.deadline = clock.now() + 1ms});
    while (gui.pending() == 0 || clock.pending() == 0) std::this_thread::yield();
    clock.advance(1ms);
    CHECK(asks.join() == "expired");
    CHECK_FALSE(cs->statistics().held);
    cs.reset();
    gui.run();
    CHECK_FALSE(ran);
  }

  TEST_CASE("execute_blocking: a body that waits is waited for, with the section held") {
    critical_section cs;
    support::gate shut;
    std::atomic<int> got{0};
    bool ended = false;
    std::thread asks([&] {
      got = cs.execute_blocking([&]() -> task<int> {
        co_await shut;
        ended = true;
        co_return 7;
      });
    });
    while (shut.waiting() == 0) std::this_thread::yield();
    CHECK(cs.statistics().held);
    auto behind = ask_in_line(cs, [&] { CHECK(ended); });
    CHECK(got == 0);
    shut.open();
    asks.join();
    CHECK(behind->join() == "ran");
    CHECK(got == 7);
    CHECK(cs.statistics().executions == 2);
    const auto fails = []() -> task<> {
      throw std::runtime_error("x");
      co_return;
    };
    CHECK_THROWS_AS(cs.execute_blocking(fails), std::runtime_error);
  }

  TEST_CASE("execute_blocking: guards that a body leaves behind are the thread's") {
    critical_section cs;
    critical_section kept;
    section_guard guard;
    const auto take = [&] { guard = std::move(kept.try_lock().value()); };
    cs.execute_blocking(take);
    CHECK_THROWS_AS(kept.execute_blocking(nothing), reentry_error);
    guard.unlock();
    kept.execute_blocking(nothing);

    const auto wait_and_take = [&]() -> task<> { guard = co_await kept.lock(); };
    cs.execute_blocking(wait_and_take);
    CHECK_THROWS_AS(kept.execute_blocking(nothing), reentry_error);
    guard.unlock();
    kept.execute_blocking(nothing);

    section_guard busy = hold(cs);
    std::string how;
    std::thread asks([&] {
      cs.execute_blocking(take);
      how = ending_of([&] { kept.execute_blocking(nothing); });
      guard.unlock();
    });
    wait_for_waiters(cs, 1);
    busy.unlock();
    asks.join();
    CHECK(how == "reentry");
    kept.execute_blocking(nothing);
  }

  TEST_CASE("execute_blocking: a worker of a pool is told, though nobody else runs there") {
    thread_pool pool{1};
    critical_section cs;
    section_guard busy = hold(cs);
    std::latch over(1);
    bool ran = false;
    struct asks : job {
      asks(critical_section& s, std::latch& l, bool& b)
          : job(&run_it), section(&s), end(&l), did_run(&b) {}
      static void run_it(job& j) noexcept {
        auto& self = static_cast<asks&>(j);
        self.section->execute_blocking([&] { *self.did_run = true; });
        self.end->count_down();
      }
      critical_section* section;
      std::latch* end;
      bool* did_run;
    } first(cs, over, ran);
    executor_ref(pool).post(first);
    wait_for_waiters(cs, 1);
    busy.unlock();
    over.wait();
    CHECK(ran);
  }

  TEST_CASE(
      "execute_blocking: who has served enough gives the section to the thread that is next") {
    critical_section cs;
    section_guard busy = hold(cs);
    fill_turn(cs);
    std::vector<std::thread::id> ran_on;
    const auto note = [&] { ran_on.push_back(std::this_thread::get_id()); };
    auto first = ask_in_line(cs, note);
    auto second = ask_in_line(cs, note);
    busy.unlock();
    CHECK(first->join() == "ran");
    CHECK(second->join() == "ran");
    CHECK(ran_on[0] == first->id());
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("execute_blocking: what it has served of several sections goes on elsewhere") {
    constexpr int more_than_a_turn = 40;
    thread_pool blocked{1};
    thread_pool other{1};
    critical_section a;
    critical_section b;
    std::latch is_in(1);
    async_scope blocks{{.executor = blocked}};
    async_scope others{{.executor = other}};
    const auto asks_twice = [&]() -> task<> {
      a.execute_blocking([&] {
        is_in.count_down();
        wait_for_waiters(a, more_than_a_turn);
      });
      a.execute_blocking(nothing);
      co_return;
    };
    const auto asks_for_both = [&]() -> task<> { co_await execute(std::tie(a, b), nothing); };
    blocks.spawn(asks_twice());
    is_in.wait();
    for (int i = 0; i != more_than_a_turn; ++i) others.spawn(asks_for_both());
    sync_wait(blocks.join());
    sync_wait(others.join());
    CHECK(a.statistics().executions == more_than_a_turn + 2);
  }

  TEST_CASE("execute_blocking: that thread may be withdrawable, too") {
    critical_section cs;
    section_guard busy = hold(cs);
    fill_turn(cs);
    std::stop_source stop;
    std::thread::id ran_on;
    const std::stop_token token = stop.get_token();
    auto next = ask_in_line(cs, [&] { ran_on = std::this_thread::get_id(); }, {.stop = token});
    busy.unlock();
    CHECK(next->join() == "ran");
    CHECK(ran_on == next->id());
  }

  TEST_CASE("execute_blocking: of synchronized data") {
    synchronized<std::vector<int>> data;
    data.execute_blocking([](std::vector<int>& v) { v.push_back(3); });
    CHECK(data.execute_blocking([](std::vector<int>& v) -> int& { return v[0]; }) == 3);
    CHECK(data.execute_blocking(&std::vector<int>::size) == 1);
    CHECK(data.section().statistics().executions == 3);
  }
}
