// synchronized.cpp - data and its section in one.

#include "support/counted.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

struct pair_of {
  pair_of(int a, std::string b) : number(a), text(std::move(b)) {}
  pair_of(const pair_of&) = delete;
  pair_of& operator=(const pair_of&) = delete;

  int number;
  std::string text;
};

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("synchronized: bodies are called with the data") {
    synchronized<int> n{40};
    sync_wait(n.execute([](int& x) { x += 2; }));
    CHECK(sync_wait(n.execute([](int& x) { return x; })) == 42);
    int& got = sync_wait(n.execute([](int& x) -> int& { return x; }));
    CHECK(got == 42);
    static_assert(!std::is_copy_constructible_v<synchronized<int>>);
  }

  TEST_CASE("synchronized: the value is made by default, moved in, or in place") {
    synchronized<int> zero;
    synchronized<std::unique_ptr<int>> moved{std::make_unique<int>(3)};
    synchronized<pair_of> made{std::in_place, 1, "one"};
    CHECK(sync_wait(zero.execute([](int& x) { return x; })) == 0);
    CHECK(sync_wait(moved.execute([](auto& p) { return *p; })) == 3);
    CHECK(sync_wait(made.execute([](pair_of& p) { return p.text; })) == "one");
  }

  TEST_CASE("synchronized: takes the options of its section, and gives the section") {
    loop l;
    synchronized<int> n{1, {.name = "numbers", .executor = l}};
    CHECK(n.section().name() == "numbers");
    bool on_loop = false;
    n.post([&](int&) { on_loop = l.here(); });
    l.run();
    CHECK(on_loop);
    CHECK(n.section().statistics().executions == 1);
  }

  TEST_CASE("synchronized: a member function or a member is a body too") {
    synchronized<std::string> s{std::string("four")};
    CHECK(sync_wait(s.execute([](std::string& x) { return x.size(); })) == 4);
    CHECK(sync_wait(s.execute(&std::string::size)) == 4);
  }

  TEST_CASE("synchronized: awaitable bodies keep the data until they end") {
    synchronized<std::vector<int>> v;
    gate g;
    auto body = [&](std::vector<int>& x) -> task<int> {
      x.push_back(1);
      co_await g;
      x.push_back(2);
      co_return static_cast<int>(x.size());
    };
    bool over = false;
    const foreign f = support::await_in_foreign(v.execute(body), over);
    CHECK_FALSE(v.try_execute([](auto&) {}));
    g.open();
    CHECK(over);
    CHECK(sync_wait(v.execute([](auto& x) { return x.size(); })) == 2);
  }

  TEST_CASE("synchronized: try_execute gives an optional, a pointer or a bool") {
    synchronized<int> n{5};
    CHECK(n.try_execute([](int& x) { return x + 1; }) == 6);
    CHECK(n.try_execute([](int& x) { x = 9; }));
    int* const p = n.try_execute([](int& x) -> int& { return x; });
    REQUIRE(p != nullptr);
    CHECK(*p == 9);
  }

  TEST_CASE("synchronized: submit and post") {
    loop l;
    synchronized<int> n{5, {.executor = l}};
    auto h = n.submit([](int& x) { return x *= 2; });
    n.post([](int& x) { x += 1; });
    CHECK_FALSE(h.ready());
    l.run();
    CHECK(sync_wait(h) == 10);
    CHECK(n.section().statistics().executions == 2);
  }

  TEST_CASE("synchronized: bodies are copied, moved and destroyed as often as a section's") {
    {
      synchronized<support::counted> n{support::counted(1)};
      const support::counted captured(2);
      auto body = [captured](support::counted& x) {
        return support::counted(x.value + captured.value);
      };
      CHECK(sync_wait(n.execute(body)).value == 3);
      CHECK(sync_wait(n.submit(body)).value == 3);
    }
    CHECK(support::counted::alive() == 0);
  }

  TEST_CASE("synchronized: lock gives a guard with * and ->") {
    synchronized<std::string> s{std::string("abc")};
    {
      auto g = sync_wait(s.lock());
      CHECK(*g == "abc");
      CHECK(g->size() == 3);
      CHECK(g.owns_lock());
      g->push_back('d');
      auto h = std::move(g);
      CHECK_FALSE(g.owns_lock());
      CHECK(static_cast<bool>(h));
      h.unlock();
      CHECK_FALSE(h.owns_lock());
    }
    CHECK(sync_wait(s.execute([](std::string& x) { return x; })) == "abcd");
  }

  TEST_CASE("synchronized: re-entry is refused through every member") {
    synchronized<int> n{1};
    bool entered = false;
    const auto body = [&entered](int&) { entered = true; };
    const auto asks = [&entered](const int&) { return entered = true; };
    const auto dependency = []() -> task<> { co_return; };
    const auto is_refused = [&n](auto again) {
      CHECK_THROWS_AS(sync_wait(n.execute(again)), reentry_error);
    };
    is_refused([&](int&) -> task<> { co_await n.execute(body); });
    is_refused([&](int&) -> task<> { co_await n.execute(after(dependency()), body); });
    is_refused([&](int&) -> task<> { co_await n.execute_when(asks, body); });
    is_refused([&](int&) { n.execute_blocking(body); });
    is_refused([&](int&) -> task<> { co_await n.lock(); });
    CHECK(sync_wait(n.execute([&](int&) { return n.try_execute(body); })) == false);
    CHECK_FALSE(entered);
  }
}
