// several.cpp - executions that are part of several sections at once.

#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/stack_meter.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <deque>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;
using support::stack_meter;

namespace {

bool idle(const critical_section& cs) {
  const section_statistics s = cs.statistics();
  return !s.held && s.waiters == 0;
}

void check_counts(const critical_section& cs, std::uint64_t executions, std::uint64_t refused) {
  CHECK(idle(cs));
  CHECK(cs.statistics().executions == executions);
  CHECK(cs.statistics().refused == refused);
}

// Awaits an execution of `body` in both, and notes whether either was held when it resumed.
template <class Body>
foreign enter_both(critical_section& a, critical_section& b, Body body, bool& held_after) {
  co_await execute(std::tie(a, b), body);
  held_after = a.statistics().held || b.statistics().held;
}

foreign close(critical_section& cs, bool& closed) {
  co_await cs.close();
  closed = true;
}

foreign enter_two(critical_section& a, critical_section& b, std::exception_ptr& error) {
  try {
    co_await execute(std::tie(a, b), [] {});
  } catch (...) {
    error = std::current_exception();
  }
}

template <class E>
bool is(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const E&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("several: the body runs as part of all of them, and each counts one execution") {
    critical_section a;
    critical_section b;
    critical_section c;
    const auto all_held = [&] {
      return a.statistics().held && b.statistics().held && c.statistics().held;
    };
    CHECK(sync_wait(execute(std::tie(c, a, b), all_held)));
    for (const critical_section* cs : {&a, &b, &c}) check_counts(*cs, 1, 0);
  }

  TEST_CASE("several: a section given twice counts once") {
    critical_section a;
    critical_section b;
    CHECK(sync_wait(execute(std::tie(a, b, a, a), [] { return 7; })) == 7);
    check_counts(a, 1, 0);
    check_counts(b, 1, 0);
    sync_wait(execute(std::tie(a, a), [] {}));
    check_counts(a, 2, 0);
  }

  TEST_CASE("several: the body is called with the data of each synchronized, in the order given") {
    synchronized<int> n{1};
    critical_section plain;
    synchronized<std::string> s{std::string("one")};
    const auto join = [](std::string& text, int& number) { return text + std::to_string(number); };
    CHECK(sync_wait(execute(std::tie(s, plain, n), join)) == "one1");
    const auto same = [](int& x, std::string&, int& y) { return &x == &y; };
    CHECK(sync_wait(execute(std::tie(n, s, n), same)));
    check_counts(n.section(), 2, 0);
    int& inside = sync_wait(execute(std::tie(n), [](int& x) -> int& { return x; }));
    ++inside;
    CHECK(sync_wait(n.execute([](int& x) { return x; })) == 2);
  }

  TEST_CASE("several: a generic body is asked with the data it gets, and with nothing else") {
    synchronized<std::vector<int>> v;
    synchronized<int> n{2};
    critical_section plain;
    sync_wait(execute(std::tie(v, plain), [](auto& all) { all.push_back(3); }));
    CHECK(v.execute_blocking([](auto& all) { return all.size(); }) == 1);
    CHECK(sync_wait(execute(std::tie(n, n), [](auto&... all) { return (all + ...); })) == 4);
  }

  TEST_CASE("several: who is refused what it uses counts in each of them") {
    const resource data{"data"};
    critical_section owner{"owner"};
    critical_section a{"a"};
    critical_section b{"b"};
    owner.execute_blocking([] {}, {.uses = data});
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), [] {}, {.uses = data})),
                    exclusive_access_error);
    check_counts(a, 0, 1);
    check_counts(b, 0, 1);
  }

  TEST_CASE("several: results are void, move-only or references, and destroyed once") {
    critical_section a;
    critical_section b;
    int number = 3;
    static_assert(std::is_void_v<decltype(sync_wait(execute(std::tie(a, b), [] {})))>);
    CHECK(*sync_wait(execute(std::tie(a, b), [] { return std::make_unique<int>(4); })) == 4);
    CHECK(&sync_wait(execute(std::tie(a, b), [&]() -> int& { return number; })) == &number);
    {
      const support::counted got =
          sync_wait(execute(std::tie(a, b), [] { return support::counted(5); }));
      CHECK(got.value == 5);
      CHECK(support::counted::alive() == 1);
    }
    CHECK(support::counted::alive() == 0);
  }

  TEST_CASE("several: what the body throws reaches its awaiter, and all are usable") {
    critical_section a;
    critical_section b;
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), [] { throw std::out_of_range("x"); })),
                    std::out_of_range);
    const auto later = []() -> task<> {
      co_await yield();
      throw std::out_of_range("later");
    };
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), later)), std::out_of_range);
    const auto not_made = []() -> task<> { throw std::out_of_range("not made"); };
    const auto made_by = [&] { return not_made(); };
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), made_by)), std::out_of_range);
    check_counts(a, 3, 0);
    check_counts(b, 3, 0);
    CHECK(sync_wait(execute(std::tie(a, b), [] { return true; })));
  }

  TEST_CASE("several: nothing runs until it is awaited, and it may be moved until then") {
    critical_section a;
    critical_section b;
    int ran = 0;
    auto run = [&] { ++ran; };
    auto cold = execute(std::tie(a, b), run);
    auto moved = std::move(cold);
    CHECK(ran == 0);
    CHECK(idle(a));
    sync_wait(std::move(moved));
    CHECK(ran == 1);
  }

  TEST_CASE("several: waits in each section for its turn, with those before held") {
    critical_section a;
    critical_section b;
    critical_section c;
    section_guard first = support::hold(a);
    section_guard third = support::hold(c);
    bool ran = false;
    bool over = false;
    auto run = [&] { ran = true; };
    const foreign f = support::await_in_foreign(execute(std::tie(c, b, a), run), over);
    CHECK(a.statistics().waiters == 1);
    CHECK(idle(b));
    first.unlock();
    CHECK(a.statistics().held);
    CHECK(b.statistics().held);
    CHECK(c.statistics().waiters == 1);
    CHECK_FALSE(ran);
    third.unlock();
    CHECK(ran);
    CHECK(over);
    for (const critical_section* cs : {&a, &b}) check_counts(*cs, 1 + (cs == &a), 0);
    check_counts(c, 2, 0);
  }

  TEST_CASE("several: all enter in one order, whatever order they are given in") {
    critical_section a;
    critical_section b;
    section_guard busy = support::hold(a);
    bool held[2] = {true, true};
    std::vector<int> order;
    const foreign one = enter_both(a, b, [&] { order.push_back(1); }, held[0]);
    const foreign two = enter_both(b, a, [&] { order.push_back(2); }, held[1]);
    CHECK(a.statistics().waiters == 2);
    CHECK(idle(b));
    busy.unlock();
    CHECK(order == std::vector{1, 2});
    CHECK(one.done());
    CHECK(two.done());
  }

  TEST_CASE("several: keep their place in line among other requests") {
    critical_section a;
    critical_section b;
    section_guard busy = support::hold(b);
    std::vector<int> order;
    const auto note = [&](int i) { return [&order, i] { order.push_back(i); }; };
    bool over[4] = {};
    const foreign f0 = support::await_in_foreign(b.execute(note(0)), over[0]);
    auto both = note(1);
    const foreign f1 = support::await_in_foreign(execute(std::tie(a, b), both), over[1]);
    const foreign f2 = support::await_in_foreign(b.execute(note(2)), over[2]);
    const foreign f3 = support::await_in_foreign(a.execute(note(3)), over[3]);
    CHECK(a.statistics().waiters == 1);
    CHECK(b.statistics().waiters == 3);
    busy.unlock();
    for (const bool o : over) CHECK(o);
    CHECK(order == std::vector{0, 1, 2, 3});
    check_counts(a, 2, 0);
    check_counts(b, 4, 0);
  }

  TEST_CASE("several: all are released before the awaiter resumes, and it may end them") {
    auto a = std::make_unique<critical_section>();
    auto b = std::make_unique<critical_section>();
    section_guard busy = support::hold(*b);
    auto last = [&]() -> foreign {
      co_await execute(std::tie(*a, *b), [] {});
      a.reset();
      b.reset();
    };
    const foreign f = last();
    CHECK(a->statistics().held);
    busy.unlock();
    CHECK(f.done());
    CHECK(a == nullptr);
    bool held = true;
    critical_section c;
    critical_section d;
    const foreign at_once = enter_both(c, d, [] {}, held);
    CHECK_FALSE(held);
  }

  TEST_CASE("several: a body that waits keeps all of them, and no thread") {
    critical_section a;
    synchronized<int> n{1};
    gate g;
    auto body = [&](int& x) -> task<int> {
      co_await g;
      co_return ++x;
    };
    bool over = false;
    bool after[2] = {};
    const foreign f = support::await_in_foreign(execute(std::tie(n, a), body), over);
    const foreign in_a = support::await_in_foreign(a.execute([] {}), after[0]);
    const foreign in_n = support::await_in_foreign(n.execute([](int& x) { ++x; }), after[1]);
    CHECK(a.statistics().waiters == 1);
    CHECK(n.section().statistics().waiters == 1);
    g.open();
    CHECK(over);
    CHECK(after[0]);
    CHECK(after[1]);
    CHECK(sync_wait(n.execute([](int& x) { return x; })) == 3);
  }

  TEST_CASE("several: waits of the body do not matter to who waited before it") {
    critical_section a;
    critical_section b;
    gate g;
    auto body = [&]() -> task<int> {
      co_await g;
      co_return 1;
    };
    section_guard busy = support::hold(b);
    bool over[2] = {};
    const foreign one = support::await_in_foreign(execute(std::tie(a, b), body), over[0]);
    const foreign two = support::await_in_foreign(execute(std::tie(b, a), body), over[1]);
    busy.unlock();
    CHECK(g.waiting() == 1);
    g.open();
    CHECK(over[0]);
    CHECK(over[1]);
    check_counts(a, 2, 0);
    check_counts(b, 3, 0);
  }

  TEST_CASE("several: asking for one that the chain holds is refused before anything is queued") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (critical_section* held : {&a, &b, &c}) {
      auto body = [&]() -> task<> { co_await execute(std::tie(c, a, b), [] {}); };
      CHECK_THROWS_AS(sync_wait(held->execute(body)), reentry_error);
      CHECK(held->statistics().refused == 1);
      for (critical_section* cs : {&a, &b, &c}) {
        CHECK(idle(*cs));
        CHECK(cs->statistics().most_waiters == 0);
      }
    }
    for (critical_section* cs : {&a, &b, &c}) CHECK(cs->statistics().executions == 1);
  }

  TEST_CASE("several: re-entry of any of them from the body is refused") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (critical_section* inner : {&a, &b, &c}) {
      auto waits = [&]() -> task<> { co_await inner->execute([] {}); };
      CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b, c), waits)), reentry_error);
      auto blocks = [&] { sync_wait(inner->execute([] {})); };
      CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b, c), blocks)), reentry_error);
      auto again = [&]() -> task<> { co_await execute(std::tie(*inner), [] {}); };
      CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b, c), again)), reentry_error);
    }
  }

  TEST_CASE("several: the path of a refusal names all that is held") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    auto inner = [&]() -> task<> { co_await a.execute([] {}); };
    auto outer = [&]() -> task<> { co_await execute(std::tie(b, a), inner); };
    std::string names;
    try {
      sync_wait(c.execute(outer));
    } catch (const reentry_error& e) {
      for (const path_step& step : e.path()) names += step.section;
    }
    CHECK(names == "aba");
    try {
      auto back_to_c = [&]() -> task<> { co_await c.execute([] {}); };
      auto both = [&]() -> task<> { co_await execute(std::tie(b, a), back_to_c); };
      sync_wait(c.execute(both));
    } catch (const reentry_error& e) {
      names.clear();
      for (const path_step& step : e.path()) names += step.section;
    }
    CHECK(names == "cabc");
  }

  TEST_CASE("several: other sections may be entered from the body") {
    critical_section a;
    critical_section b;
    critical_section c;
    critical_section d;
    auto inner = [&]() -> task<int> {
      co_return co_await execute(std::tie(c, d), [] { return 9; });
    };
    CHECK(sync_wait(execute(std::tie(a, b), inner)) == 9);
  }

  TEST_CASE("several: a closed one refuses, and those entered before it are released uncounted") {
    for (const std::size_t closed : {0u, 1u, 2u}) {
      std::array<critical_section, 3> all;
      sync_wait(all[closed].close());
      CHECK_THROWS_AS(sync_wait(execute(std::tie(all[2], all[1], all[0]), [] {})), section_closed);
      for (std::size_t i = 0; i != 3; ++i) {
        CHECK(all[i].statistics().executions == 0);
        CHECK(all[i].statistics().refused == (i == closed ? 1 : 0));
        if (i != closed) CHECK(all[i].try_execute([] {}));
      }
    }
  }

  TEST_CASE("several: a section that closes while an earlier one is waited for refuses") {
    critical_section a;
    critical_section b;
    section_guard busy = support::hold(a);
    std::exception_ptr error;
    const foreign f = enter_two(a, b, error);
    bool behind = false;
    const foreign next = support::await_in_foreign(a.execute([] {}), behind);
    sync_wait(b.close());
    CHECK_FALSE(f.done());
    busy.unlock();
    CHECK(f.done());
    CHECK(is<section_closed>(error));
    CHECK(behind);
    check_counts(a, 2, 0);
    CHECK(b.statistics().refused == 1);
  }

  TEST_CASE("several: closing waits for what was accepted") {
    critical_section a;
    critical_section b;
    section_guard busy = support::hold(b);
    std::exception_ptr error;
    const foreign f = enter_two(a, b, error);
    bool closed[2] = {};
    const foreign close_a = close(a, closed[0]);
    const foreign close_b = close(b, closed[1]);
    CHECK_FALSE(closed[0]);
    busy.unlock();
    CHECK(f.done());
    CHECK_FALSE(error);
    CHECK(closed[0]);
    CHECK(closed[1]);
  }

  TEST_CASE("several: sections bound to different executors are an invalid argument") {
    loop one;
    loop two;
    critical_section a{section_options{.executor = one}};
    critical_section b{section_options{.executor = two}};
    CHECK_THROWS_AS(static_cast<void>(execute(std::tie(a, b), [] {})), std::invalid_argument);
  }

  TEST_CASE("several: the body runs on the executor that some are bound to") {
    loop l;
    critical_section bound{section_options{.executor = l}};
    critical_section also{section_options{.executor = l}};
    critical_section free;
    bool on_loop = false;
    bool over = false;
    auto look = [&] { on_loop = l.here(); };
    const foreign f = support::await_in_foreign(execute(std::tie(bound, free, also), look), over);
    CHECK(free.statistics().held);  // entered first, though it is the last by number
    CHECK_FALSE(over);
    l.run();
    CHECK(on_loop);
    CHECK(over);
    for (const critical_section* cs : {&bound, &also, &free}) check_counts(*cs, 1, 0);
  }

  TEST_CASE("several: behind others in a bound section the body runs on its executor too") {
    loop l;
    critical_section free;
    critical_section bound{section_options{.executor = l}};
    section_guard busy = support::hold(free);
    int on_loop = 0;
    bool over[2] = {};
    auto look = [&] { on_loop += l.here() ? 1 : 0; };
    const foreign one = support::await_in_foreign(execute(std::tie(bound, free), look), over[0]);
    const foreign two = support::await_in_foreign(bound.execute(look), over[1]);
    busy.unlock();
    CHECK(on_loop == 0);
    l.run();
    CHECK(on_loop == 2);
    CHECK(over[0]);
    CHECK(over[1]);
  }

  TEST_CASE("several: the awaiter comes back where it was, or where it asked for") {
    loop home;
    loop other;
    critical_section a;
    critical_section b;
    std::vector<bool> at;
    auto come_home = [&]() -> task<> {
      co_await execute(std::tie(a, b), [] {});
      at.push_back(home.here());
      co_await execute(std::tie(a, b), [] {}, {.resume_on = other});
      at.push_back(other.here());
      co_await execute(std::tie(a, b), [] {}, {.resume_on = other});
      at.push_back(other.here());
    };
    section_guard busy = support::hold(b);
    async_scope scope{{.executor = home}};
    scope.spawn(come_home());
    home.run();
    CHECK(at.empty());
    busy.unlock();
    while (home.run() + other.run() != 0) {
    }
    CHECK(at == std::vector{true, true, true});
    sync_wait(scope.join());
  }

  TEST_CASE("several: a refusal after a wait comes home too") {
    loop home;
    critical_section a;
    critical_section b;
    sync_wait(b.close());
    section_guard busy = support::hold(a);
    bool at_home = false;
    auto refused = [&]() -> task<> {
      try {
        co_await execute(std::tie(a, b), [] {});
      } catch (const section_closed&) {
        at_home = home.here();
      }
    };
    async_scope scope{{.executor = home}};
    scope.spawn(refused());
    home.run();
    busy.unlock();
    home.run();
    CHECK(at_home);
    sync_wait(scope.join());
  }

  TEST_CASE("several: a guard that the body leaves behind stays with the chain") {
    critical_section a;
    critical_section b;
    critical_section c;
    auto asks_again = [&]() -> task<> {
      section_guard left;
      auto take = [&] { left = std::move(c.try_lock().value()); };
      co_await execute(std::tie(a, b), take);
      CHECK(left.owns_lock());
      co_await execute(std::tie(b, c), [] {});
    };
    CHECK_THROWS_AS(sync_wait(asks_again()), reentry_error);
    CHECK(idle(a));
    CHECK(idle(b));
    CHECK(idle(c));
  }

  TEST_CASE("several: a long row on one thread does not grow the stack") {
    critical_section a;
    critical_section b;
    stack_meter m;
    auto row = [&]() -> task<> {
      for (int i = 0; i != 20'000; ++i) co_await execute(std::tie(a, b), [&m] { m.look(); });
    };
    sync_wait(row());
    check_counts(a, 20'000, 0);
    CHECK(m.used() < 16'384);
  }

  TEST_CASE("several: a long line that waits for both does not grow the stack") {
    critical_section a;
    critical_section b;
    stack_meter m;
    std::deque<bool> over;
    std::vector<foreign> all;
    const auto queue_up = [&](auto body) {
      for (int i = 0; i != 20'000; ++i) {
        auto sections = i % 2 == 0 ? std::tie(a, b) : std::tie(b, a);
        all.push_back(support::await_in_foreign(execute(sections, body), over.emplace_back()));
      }
    };
    section_guard busy = support::hold(a);
    queue_up([&m] { m.look(); });
    support::serve_here([&] { busy.unlock(); });
    check_counts(a, 20'001, 0);
    check_counts(b, 20'000, 0);
    busy = support::hold(b);
    queue_up([&m]() -> task<> {
      m.look();
      co_return;
    });
    support::serve_here([&] { busy.unlock(); });
    check_counts(a, 40'001, 0);
    for (const bool o : over) CHECK(o);
    CHECK(m.used() < 65'536);
  }

  TEST_CASE("several: a long line of pairs that overlap does not grow the stack") {
    std::deque<critical_section> chain(2'000);
    stack_meter m;
    std::deque<bool> over;
    std::vector<foreign> all;
    section_guard busy = support::hold(chain.back());
    auto look = [&m] { m.look(); };
    for (std::size_t i = chain.size() - 1; i-- != 0;) {
      auto pair = std::tie(chain[i], chain[i + 1]);
      all.push_back(support::await_in_foreign(execute(pair, look), over.emplace_back()));
    }
    CHECK(chain[0].statistics().held);
    support::serve_here([&] { busy.unlock(); });
    for (const bool o : over) CHECK(o);
    CHECK(m.used() < 65'536);
  }

  TEST_CASE(
      "several: with no executor, what the budget does not reach goes on in the shared pool") {
    std::deque<critical_section> chain(200);
    std::deque<bool> over;
    std::vector<foreign> all;
    section_guard busy = support::hold(chain.back());
    for (std::size_t i = chain.size() - 1; i-- != 0;) {
      auto pair = std::tie(chain[i], chain[i + 1]);
      all.push_back(support::await_in_foreign(execute(pair, [] {}), over.emplace_back()));
    }
    busy.unlock();
    for (const foreign& f : all) f.wait();
    for (const bool o : over) CHECK(o);
  }

  TEST_CASE(
      "several: who has entered one of them does not wait for a body that waits for that one") {
    critical_section a;
    critical_section b;
    critical_section last;
    std::optional<section_guard> busy = last.try_lock();
    std::vector<std::thread> threads;
    threads.emplace_back([&] { sync_wait(execute(std::tie(a, last), [] {})); });
    support::wait_for_waiters(last, 1);
    threads.emplace_back([&] { sync_wait(execute(std::tie(b, last), [] {})); });
    support::wait_for_waiters(last, 2);
    threads.emplace_back([&] { a.execute_blocking([&] { last.execute_blocking([] {}); }); });
    support::wait_for_waiters(a, 1);
    busy->unlock();  // serves here what it can
    for (std::thread& t : threads) t.join();
    CHECK(last.statistics().executions == 4);
  }

  TEST_CASE("several: destroying a coroutine that waits is reported, and so is awaiting twice") {
    support::check_dies(
        [] {
          critical_section a{"first"};
          critical_section b{"second"};
          const section_guard busy = support::hold(b);
          bool over = false;
          const foreign f = support::await_in_foreign(execute(std::tie(a, b), [] {}), over);
        },
        "section \"second\": a coroutine is destroyed while it waits");
    support::check_dies(
        [] {
          critical_section a{"first"};
          critical_section b{"second"};
          auto twice = execute(std::tie(a, b), [] {});
          sync_wait(std::move(twice));
          sync_wait(std::move(twice));
        },
        "an execution is awaited twice");
  }

  TEST_CASE("several: re-entry of any of them is told before that all around has been stopped") {
    critical_section a;
    critical_section b;
    loop here;
    for (critical_section* held : {&a, &b}) {
      async_scope scope{{.executor = here}};
      bool told = false;
      scope.spawn([](critical_section& one, critical_section& x, critical_section& y,
                     async_scope& around, bool& out) -> task<> {
        const section_guard g = co_await one.lock();
        around.request_stop();
        try {
          co_await execute(std::tie(x, y), [] {});
        } catch (const reentry_error&) {
          out = true;
        }
      }(*held, a, b, scope, told));
      here.run();
      CHECK(told);
      sync_wait(scope.join());
    }
  }

  TEST_CASE("several: what is derived from a section is one") {
    struct account : critical_section {
      using critical_section::critical_section;
    };
    struct counter : synchronized<int> {
      using synchronized<int>::synchronized;
    };
    account a("a");
    counter n(1);
    const auto body = [](int& value) { return ++value; };
    CHECK(sync_wait(execute(std::tie(a, n), body)) == 2);
    CHECK(a.statistics().executions == 1);
  }
}
