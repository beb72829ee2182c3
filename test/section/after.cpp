// after.cpp - executions that wait for others before they ask for their section.

#include "support/counted.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

task<std::string> text(std::string s) { co_return s; }
task<int&> refer(int& n) { co_return n; }
task<> nothing() { co_return; }
task<std::unique_ptr<int>> boxed(int n) { co_return std::make_unique<int>(n); }
task<std::monostate> empty_value() { co_return std::monostate{}; }

task<int> failing(std::string what) {
  throw std::runtime_error(what);
  co_return 0;
}

task<int> pass(gate& g, int n) {
  co_await g;
  co_return n;
}

task<int> held_across(gate& g, critical_section& cs) {
  auto body = [&]() -> task<int> {
    co_await g;
    co_return 1;
  };
  co_return co_await cs.execute(body);
}

template <class F>
std::string message(F f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("after: who comes too late does not wait for the others") {
    critical_section cs;
    bool made = false;
    auto dependency = [&]() -> task<int> {
      made = true;
      co_return 1;
    };
    std::stop_source stop;
    stop.request_stop();
    const auto body = [](int) { FAIL("it ran"); };
    const std::stop_token token = stop.get_token();
    const execute_options stopped{.stop = token};
    const execute_options late{.deadline = std::chrono::steady_clock::time_point{}};
    CHECK_THROWS_AS(sync_wait(cs.execute(after(dependency()), body, stopped)), operation_cancelled);
    CHECK_THROWS_AS(sync_wait(cs.execute(after(dependency()), body, late)), deadline_exceeded);
    CHECK_FALSE(made);
    CHECK(cs.statistics().withdrawn == 2);
    CHECK(cs.statistics().executions == 0);
  }

  TEST_CASE("after: a body that takes lvalues and what else there is is called without a stream") {
    critical_section cs;
    const auto body = [](auto& first, auto&&... rest) {
      static_assert(std::is_same_v<decltype(first), int&>);
      return first + static_cast<int>(sizeof...(rest));
    };
    CHECK(sync_wait(cs.execute(after([]() -> task<int> { co_return 1; }()), body)) == 1);
  }

  TEST_CASE("after: the body is called with the values of its dependencies, in order") {
    critical_section cs;
    const auto join = [](int a, std::string b, int c) {
      return std::to_string(a) + b + std::to_string(c);
    };
    auto h = cs.submit([] { return 1; });
    CHECK(sync_wait(cs.execute(after(h, text("+"), cs.execute([] { return 2; })), join)) == "1+2");
  }

  TEST_CASE("after: a synchronized's data comes first") {
    synchronized<int> n{40};
    const auto add = [](int& x, int y) { return x += y; };
    CHECK(sync_wait(n.execute(after(n.submit([](int& x) { return x - 38; })), add)) == 42);
  }

  TEST_CASE("after: nothing is given for void, and a monostate is a value") {
    critical_section cs;
    const auto count = [](auto&&... all) { return sizeof...(all); };
    CHECK(sync_wait(cs.execute(after(nothing(), cs.submit([] {}), text("x"), nothing()), count)) ==
          1);
    CHECK(sync_wait(cs.execute(after(empty_value()), count)) == 1);
    CHECK(sync_wait(cs.execute(after(), count)) == 0);
  }

  TEST_CASE("after: a generic body is asked with the values alone") {
    critical_section cs;
    const auto sum = [](auto&&... all) { return (all + ...); };
    CHECK(sync_wait(cs.execute(after(cs.submit([] { return 1; }), cs.submit([] { return 2; })),
                               sum)) == 3);
  }

  TEST_CASE("after: references come as references, values as rvalues or as lvalues") {
    critical_section cs;
    int n = 1;
    int& got = sync_wait(cs.execute(after(refer(n)), [](int& x) -> int& { return x; }));
    CHECK(&got == &n);
    CHECK(*sync_wait(cs.execute(after(boxed(2)), [](std::unique_ptr<int> p) { return p; })) == 2);
    CHECK(sync_wait(cs.execute(after(text("a")), [](std::string& s) { return s += "b"; })) == "ab");
    CHECK(sync_wait(cs.execute(after(text("a")), [](std::string&& s) { return s; })) == "a");
    CHECK(sync_wait(cs.execute(after(text("a")), [](const std::string& s) { return s; })) == "a");
  }

  TEST_CASE("after: inside co_await, with handles as lvalues and tasks as rvalues") {
    critical_section cs;
    synchronized<std::vector<std::string>> all;
    auto use = [&]() -> task<std::size_t> {
      auto one = cs.submit([] { return support::counted(1); });
      auto two = cs.submit([] { return support::counted(2); });
      const int sum = co_await cs.execute(
          after(one, two),
          [](support::counted a, support::counted b) { return a.value + b.value; });
      CHECK(sum == 3);
      co_await all.execute(after(text("a string that is not short at all"), text("b")),
                           [](auto& v, std::string a, std::string b) { v = {a, b}; });
      auto body = [](auto& v, std::string c) -> task<std::size_t> {
        co_await yield();
        v.push_back(c);
        co_return v.size();
      };
      co_return co_await all.execute(after(text("c")), body);
    };
    CHECK(sync_wait(use()) == 3);
    CHECK(support::counted::alive() == 0);
  }

  TEST_CASE("after: values live as long as a body that waits") {
    critical_section cs;
    gate g;
    std::string seen;
    auto body = [&](const std::string& s) -> task<> {
      co_await g;
      seen = s;
    };
    bool over = false;
    const foreign f = support::await_in_foreign(
        cs.execute(after(text("a string that is not short at all")), body), over);
    g.open();
    CHECK(over);
    CHECK(seen == "a string that is not short at all");
  }

  TEST_CASE("after: the section is neither held nor queued for until the last one is ready") {
    critical_section cs;
    gate g1;
    gate g2;
    bool over = false;
    std::vector<int> order;
    auto body = [&](int a, int b) { order.push_back(a + b); };
    const foreign f =
        support::await_in_foreign(cs.execute(after(pass(g1, 1), pass(g2, 2)), body), over);
    CHECK_FALSE(cs.statistics().held);
    g2.open();
    sync_wait(cs.execute([&] { order.push_back(0); }));
    CHECK_FALSE(over);
    section_guard busy = support::hold(cs);
    bool behind = false;
    CHECK(cs.statistics().waiters == 0);
    g1.open();
    CHECK(cs.statistics().waiters == 1);
    const foreign later =
        support::await_in_foreign(cs.execute([&] { order.push_back(9); }), behind);
    busy.unlock();
    CHECK(order == std::vector{0, 3, 9});
    CHECK(over);
  }

  TEST_CASE("after: if a dependency throws, the body does not run and nothing is queued") {
    critical_section cs;
    bool ran = false;
    const auto body = [&](int, int) { ran = true; };
    CHECK(message([&] {
            sync_wait(cs.execute(after(failing("first"), failing("second")), body));
          }) == "first");
    gate g;
    auto wait_for_both = [&]() -> foreign {
      auto failed = cs.submit([]() -> int { throw std::runtime_error("by a handle"); });
      co_await cs.execute(after(failed, pass(g, 1)), body);
    };
    const foreign f = wait_for_both();
    while (cs.statistics().executions != 1) std::this_thread::yield();
    CHECK_FALSE(f.done());
    g.open();
    f.wait();
    CHECK(message([&] { f.rethrow(); }) == "by a handle");
    CHECK_FALSE(ran);
    CHECK(cs.statistics().executions == 1);
    CHECK(cs.statistics().most_waiters == 0);
  }

  TEST_CASE("after: re-entry is noticed when the section is asked for, or while it is waited for") {
    critical_section cs{"a"};
    critical_section other;
    bool made = false;
    auto dependency = [&]() -> task<> {
      made = true;
      co_return;
    };
    auto inside = [&]() -> task<> { co_await cs.execute(after(dependency()), [] {}); };
    CHECK_THROWS_AS(sync_wait(cs.execute(inside)), reentry_error);
    CHECK(made);
    auto waits_for_itself = [&]() -> task<> {
      auto behind = cs.submit([] {});
      co_await other.execute(after(behind), [] {});
    };
    CHECK_THROWS_AS(sync_wait(cs.execute(waits_for_itself)), deadlock_error);
    sync_wait(cs.execute([] {}));  // behind what was submitted
    CHECK(other.statistics().executions == 0);
  }

  TEST_CASE("after: a dependency may use the section that is asked for afterwards") {
    critical_section cs;
    gate g;
    bool over = false;
    auto same = [](int n) { return n; };
    const foreign f = support::await_in_foreign(cs.execute(after(held_across(g, cs)), same), over);
    CHECK(cs.statistics().held);
    g.open();
    CHECK(over);
    CHECK(cs.statistics().executions == 2);
  }

  TEST_CASE("after: the awaiter comes back where it was, also with an error") {
    loop home;
    loop other;
    critical_section cs;
    std::vector<bool> at;
    auto use = [&]() -> task<> {
      co_await cs.execute(after(schedule_on(other, nothing())), [] {});
      at.push_back(home.here());
      gate g;
      co_await cs.execute(after(nothing()), [] {}, {.resume_on = other});
      at.push_back(other.here());
      try {
        co_await cs.execute(after(failing("x")), [](int) {}, {.resume_on = home});
      } catch (const std::runtime_error&) {
        at.push_back(home.here());
      }
    };
    async_scope scope{{.executor = home}};
    scope.spawn(use());
    while (home.run() + other.run() != 0) {
    }
    CHECK(at == std::vector{true, true, true});
    sync_wait(scope.join());
  }

  TEST_CASE("after: a dependency that ends elsewhere does not take the awaiter with it") {
    loop home;
    loop other;
    critical_section cs;
    critical_section closed;
    sync_wait(closed.close());
    std::vector<bool> at;
    gate g;
    auto use = [&]() -> task<> {
      co_await cs.execute(after(g.passed()), [] {});
      at.push_back(home.here());
      try {
        co_await closed.execute(after(nothing()), [] {});
      } catch (const section_closed&) {
        at.push_back(home.here());
      }
    };
    auto open = [&]() -> task<> {
      g.open();
      co_return;
    };
    async_scope scope{{.executor = home}};
    async_scope opener{{.executor = other}};
    scope.spawn(use());
    home.run();
    opener.spawn(open());
    other.run();
    CHECK(at.empty());
    while (home.run() + other.run() != 0) {
    }
    CHECK(at == std::vector{true, true});
    sync_wait(scope.join());
    sync_wait(opener.join());
  }

  TEST_CASE("after: what refuses the request is thrown without a hop") {
    loop home;
    loop other;
    critical_section cs;
    critical_section closed;
    sync_wait(closed.close());
    std::stop_source stop;
    stop.request_stop();
    const std::stop_token token = stop.get_token();
    const auto body = [] { FAIL("it ran"); };
    std::vector<bool> at;
    auto refused = [&]() -> task<> {
      try {
        co_await closed.execute(after(nothing()), body, {.resume_on = other});
      } catch (const section_closed&) {
        at.push_back(home.here());
      }
      try {
        co_await cs.execute(after(nothing()), body, {.stop = token, .resume_on = other});
      } catch (const operation_cancelled&) {
        at.push_back(home.here());
      }
      const auto again = [&]() -> task<> {
        co_await cs.execute(after(nothing()), body, {.resume_on = other});
      };
      try {
        co_await cs.execute(again);
      } catch (const reentry_error&) {
        at.push_back(home.here());
      }
    };
    bool on_an_executor = false;
    SUBCASE("on an executor") { on_an_executor = true; }
    SUBCASE("on a plain thread") {}
    bool over = false;
    auto use = [&]() -> foreign {
      co_await refused();
      over = true;
    };
    std::optional<foreign> f;
    if (on_an_executor) {
      support::run_on(home, [&] { f.emplace(use()); });
    } else {
      f.emplace(use());
    }
    CHECK(over);
    CHECK(at == std::vector(3, on_an_executor));
    while (home.run() + other.run() != 0) {
    }
    f->rethrow();
  }

  TEST_CASE("after: what refuses the request comes back from where a dependency has led") {
    loop home;
    critical_section closed;
    sync_wait(closed.close());
    gate g;
    bool at_home = false;
    auto use = [&]() -> foreign {
      try {
        co_await closed.execute(after(g.passed()), [] {}, {.resume_on = home});
      } catch (const section_closed&) {
        at_home = home.here();
      }
    };
    const foreign f = use();
    std::thread([&g] { g.open(); }).join();
    CHECK_FALSE(f.done());
    home.run();
    CHECK(f.done());
    CHECK(at_home);
  }

  TEST_CASE("after: nothing starts until it is awaited") {
    critical_section cs;
    int started = 0;
    auto dependency = [&]() -> task<> {
      ++started;
      co_return;
    };
    auto body = [&] { ++started; };
    auto cold = cs.execute(after(dependency()), body);
    auto moved = std::move(cold);
    CHECK(started == 0);
    sync_wait(std::move(moved));
    CHECK(started == 2);
  }
}
