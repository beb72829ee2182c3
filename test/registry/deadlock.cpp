// deadlock.cpp - waits that would never end, one by one: what is refused, what its path says, and
// that everybody else goes on. The scenarios in every way of waiting are in deadlock_table.cpp.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;
using support::loop;

namespace {

using strings = std::vector<std::string>;
using where_from = std::source_location;

unsigned line(where_from at = where_from::current()) { return at.line(); }

// What became of something that was started.
struct fate {
  bool over = false;
  std::exception_ptr error;

  bool well() const { return over && error == nullptr; }

  template <class E = deadlock_error>
  bool refused() const {
    return over && caught<E>() != nullptr;
  }
  std::vector<path_step> path() const {
    const auto e = caught<deadlock_error>();
    return e == nullptr ? std::vector<path_step>{}
                        : std::vector<path_step>(e->path().begin(), e->path().end());
  }
  strings names() const {
    strings all;
    for (const path_step& s : path()) all.push_back(s.section);
    return all;
  }
  std::string text() const {
    const auto e = caught<deadlock_error>();
    return e == nullptr ? "" : e->what();
  }

 private:
  template <class E>
  std::unique_ptr<E> caught() const {
    if (error == nullptr) return nullptr;
    try {
      std::rethrow_exception(error);
    } catch (const E& e) {
      return std::make_unique<E>(e);
    } catch (...) {
      return nullptr;
    }
  }
};

foreign run(task<> t, fate& f) {
  try {
    co_await std::move(t);
  } catch (...) {
    f.error = std::current_exception();
  }
  f.over = true;
}

task<> enter(critical_section& s) {
  co_await s.execute([] {});
}

task<> pass(gate& g) { co_await g; }

// Holds `mine`, and when the gate is opened asks for `next`.
task<> hold_then(critical_section& mine, gate& g, critical_section& next) {
  auto body = [&]() -> task<> {
    co_await g;
    co_await enter(next);
  };
  co_await mine.execute(body);
}

task<> hold_all_then(std::deque<critical_section>& mine, std::size_t i, gate& g,
                     critical_section& next) {
  if (i == mine.size()) {
    co_await g;
    co_await enter(next);
    co_return;
  }
  auto body = [&, i] { return hold_all_then(mine, i + 1, g, next); };
  co_await mine[i].execute(body);
}

task<> after(gate& g, critical_section& s) {
  co_await g;
  co_await enter(s);
}

task<> lock_then_join(critical_section& mine, gate& g, async_scope& scope) {
  const section_guard held = co_await mine.lock();
  co_await g;
  co_await scope.join();
}

// Knows nothing of where it was started.
foreign ask_twice(critical_section& first, critical_section& second, fate& f) {
  try {
    co_await first.execute([] {});
    co_await second.execute([] {});
  } catch (...) {
    f.error = std::current_exception();
  }
  f.over = true;
}

// As run, but for a task that is awaited by the library.
task<> run_within(task<> t, fate& f) {
  try {
    co_await std::move(t);
  } catch (...) {
    f.error = std::current_exception();
  }
  f.over = true;
}

task<> lock_then(critical_section& mine, gate& g, critical_section& next) {
  const section_guard held = co_await mine.lock();
  co_await g;
  co_await enter(next);
}

// Does something with a section held.
template <class F>
task<> inside(critical_section& s, F f) {
  auto body = [&f]() -> task<> { co_await f(); };
  co_await s.execute(body);
}

void check_usable(critical_section& s) {
  CHECK_FALSE(s.statistics().held);
  CHECK(s.try_execute([] {}));
}

// The same for a section that is bound to the loop.
void check_from(loop& l, critical_section& s) {
  CHECK_FALSE(s.statistics().held);
  bool ran = false;
  s.post([&ran] { ran = true; });
  l.run();
  CHECK(ran);
}

// Runs `f` as part of the loop, and all that follows from it.
template <class F>
void act(loop& l, F f) {
  struct call : job {
    explicit call(F& g) noexcept : job(&run_it), function(&g) {}
    static void run_it(job& j) noexcept { (*static_cast<call&>(j).function)(); }
    F* function;
  };
  call first(f);
  executor_ref(l).post(first);
  l.run();
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("deadlock: the path leads from the section wanted along who holds what back to it") {
    critical_section a{"accounts"};
    critical_section b{"journal"};
    gate ga;
    gate gb;
    unsigned a_held_at = 0;
    unsigned b_held_at = 0;
    unsigned b_asked_at = 0;
    auto transfer = [&]() -> task<> {
      auto body = [&]() -> task<> {
        co_await ga;
        b_asked_at = line() + 1;
        co_await b.execute([] {}, {.name = "note"});
      };
      a_held_at = line() + 1;
      co_await a.execute(body, {.name = "transfer"});
    };
    auto report = [&]() -> task<> {
      auto body = [&]() -> task<> {
        co_await gb;
        co_await a.execute([] {}, {.name = "sum"});
      };
      b_held_at = line() + 1;
      co_await b.execute(body, {.name = "report"});
    };
    fate fa;
    fate fb;
    const foreign x = run(transfer(), fa);
    const foreign y = run(report(), fb);
    gb.open();
    CHECK_FALSE(fb.over);
    ga.open();
    CHECK(fa.refused());
    CHECK_FALSE(fa.refused<reentry_error>());
    CHECK(fb.well());
    const std::vector<path_step> path = fa.path();
    REQUIRE(fa.names() == strings{"journal", "accounts", "journal"});
    CHECK(path[0].where.line() == b_held_at);
    CHECK(path[1].where.line() == a_held_at);
    CHECK(path[2].where.line() == b_asked_at);
    for (const path_step& s : path) {
      CHECK(std::string(s.where.file_name()).ends_with("deadlock.cpp"));
    }
    const std::string text = fa.text();
    CHECK(text.find("journal by report") != std::string::npos);
    CHECK(text.find("accounts by transfer") > text.find("journal by report"));
    CHECK(text.find("journal by note") > text.find("accounts by transfer"));
    CHECK(text.find("journal by note") != std::string::npos);
    CHECK(text.find("sum") == std::string::npos);
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("deadlock: unnamed sections have their numbers in the path") {
    critical_section a;
    critical_section b;
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    const foreign x = run(hold_then(a, ga, b), fa);
    const foreign y = run(hold_then(b, gb, a), fb);
    ga.open();
    gb.open();
    CHECK(fb.refused());
    CHECK(fa.well());
    const strings names = fb.names();
    REQUIRE(names.size() == 3);
    CHECK(names[0].starts_with("section #"));
    CHECK(names[0] == names[2]);
    CHECK(names[0] != names[1]);
  }

  TEST_CASE("deadlock: among three chains, the one that waits last is refused") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    gate g[3];
    fate f[3];
    const foreign x = run(hold_then(a, g[0], b), f[0]);
    const foreign y = run(lock_then(b, g[1], c), f[1]);
    const foreign z = run(hold_then(c, g[2], a), f[2]);
    g[0].open();
    g[1].open();
    CHECK_FALSE(f[0].over);
    CHECK_FALSE(f[1].over);
    g[2].open();
    CHECK(f[2].names() == strings{"a", "b", "c", "a"});
    CHECK(f[0].well());
    CHECK(f[1].well());
    for (critical_section* s : {&a, &b, &c}) check_usable(*s);
  }

  TEST_CASE("deadlock: what is refused may be tried again once the others are through") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    int refused = 0;
    auto patient = [&]() -> task<> {
      for (bool done = false; !done;) {
        try {
          co_await hold_then(b, gb, a);
          done = true;
        } catch (const deadlock_error&) {
          ++refused;
        }
      }
    };
    const foreign x = run(hold_then(a, ga, b), fa);
    const foreign y = run(patient(), fb);
    ga.open();
    gb.open();
    CHECK(fa.well());
    CHECK(fb.well());
    CHECK(refused == 1);
    CHECK(b.statistics().refused == 0);
    CHECK(a.statistics().refused == 1);
  }

  TEST_CASE("deadlock: caught where it is thrown, the chain goes on with all it holds") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    const foreign x = run(hold_then(a, ga, b), fa);
    bool went_on = false;
    auto stubborn = [&]() -> task<> {
      co_await gb;
      for (int i = 0; i != 3; ++i) {
        bool refused = false;
        try {
          co_await enter(a);
        } catch (const deadlock_error&) {
          refused = true;
        }
        if (refused) co_await enter(c);
      }
      went_on = true;
    };
    const foreign y = run(inside(b, stubborn), fb);
    ga.open();
    CHECK_FALSE(fa.over);
    gb.open();
    CHECK(went_on);
    CHECK(fb.well());
    CHECK(fa.well());
    CHECK(a.statistics().refused == 3);
    CHECK(c.statistics().executions == 3);
    for (critical_section* s : {&a, &b, &c}) check_usable(*s);
  }

  TEST_CASE("deadlock: those in line behind the one refused are served in order") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    std::vector<int> order;
    fate behind[2];
    auto note = [&](int i) -> task<> { co_await a.execute([&order, i] { order.push_back(i); }); };
    const foreign x = run(hold_then(a, ga, b), fa);
    const foreign y = run(hold_then(b, gb, a), fb);
    ga.open();
    const foreign first = run(note(1), behind[0]);
    gb.open();
    const foreign second = run(note(2), behind[1]);
    CHECK(fb.refused());
    CHECK(fa.well());
    CHECK(order == std::vector<int>{1, 2});
  }

  TEST_CASE("deadlock: more who wait for either section are no part of the cycle") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    fate others[4];
    const foreign x = run(hold_then(a, ga, b), fa);
    const foreign y = run(hold_then(b, gb, a), fb);
    const foreign waiting[] = {run(enter(a), others[0]), run(enter(b), others[1]),
                               run(enter(a), others[2])};
    ga.open();
    const foreign last = run(enter(b), others[3]);
    gb.open();
    CHECK(fb.names() == strings{"a", "b", "a"});
    CHECK(fa.well());
    for (const fate& f : others) CHECK(f.well());
  }

  TEST_CASE("deadlock: any one of many sections held closes the cycle, whoever waits last") {
    for (std::size_t held = 1; held != 9; ++held) {
      for (std::size_t wanted = 0; wanted != held; ++wanted) {
        for (const bool deep_one_last : {true, false}) {
          std::deque<critical_section> mine(held);
          critical_section theirs{"theirs"};
          gate g[2];
          fate f[2];
          const foreign x = run(hold_all_then(mine, 0, g[0], theirs), f[0]);
          const foreign y = run(hold_then(theirs, g[1], mine[wanted]), f[1]);
          g[deep_one_last ? 1 : 0].open();
          g[deep_one_last ? 0 : 1].open();
          CHECK(f[deep_one_last ? 0 : 1].refused());
          CHECK(f[deep_one_last ? 1 : 0].well());
          CHECK(f[deep_one_last ? 0 : 1].names().size() == 3);
          for (critical_section& s : mine) check_usable(s);
        }
      }
    }
  }

  // --- parallel children -------------------------------------------------------------------------

  TEST_CASE("deadlock: two children of when_all that wait for each other's guards") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section outer{"outer"};
    gate ga;
    gate gb;
    fate f;
    auto children = [&]() -> task<> {
      co_await when_all(lock_then(a, ga, b), lock_then(b, gb, a));
    };
    const foreign x = run(inside(outer, children), f);
    ga.open();
    CHECK_FALSE(f.over);
    gb.open();
    CHECK(f.names() == strings{"a", "b", "a"});
    CHECK(a.statistics().executions == 1);
    CHECK(b.statistics().executions == 2);
    for (critical_section* s : {&a, &b, &outer}) check_usable(*s);
  }

  TEST_CASE("deadlock: the same children without any section around them") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate ga;
    gate gb;
    fate f;
    auto children = [&]() -> task<> {
      co_await when_all(lock_then(a, ga, b), lock_then(b, gb, a));
    };
    const foreign x = run(children(), f);
    gb.open();
    ga.open();
    CHECK(f.names() == strings{"b", "a", "b"});
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("deadlock: children may wait for what a sibling will give back") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate g;
    fate f;
    auto keeps = [&]() -> task<> {
      const section_guard held = co_await b.lock();
      co_await g;
    };
    auto children = [&]() -> task<> { co_await when_all(keeps(), enter(b), enter(b)); };
    const foreign x = run(inside(a, children), f);
    CHECK_FALSE(f.over);
    g.open();
    CHECK(f.well());
  }

  TEST_CASE("deadlock: a child waits for whoever waits for what its parent holds") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (const bool child_last : {true, false}) {
      gate ga;
      gate gb;
      gate gc;
      fate fa;
      fate fb;
      auto children = [&]() -> task<> { co_await when_all(pass(gc), after(ga, b), enter(c)); };
      const foreign x = run(inside(a, children), fa);
      const foreign y = run(hold_then(b, gb, a), fb);
      (child_last ? gb : ga).open();
      CHECK_FALSE(fb.over);
      (child_last ? ga : gb).open();
      CHECK_FALSE(fa.over);  // it waits for its other child
      CHECK(fb.over != child_last);
      gc.open();
      CHECK((child_last ? fb.well() : fb.refused()));
      CHECK((child_last ? fa.refused() : fa.well()));
      for (critical_section* s : {&a, &b, &c}) check_usable(*s);
    }
  }

  TEST_CASE("deadlock: children of spawned work wait side by side, and each is found") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (const int which : {0, 1}) {
      async_scope scope;
      gate g;
      fate f;
      auto work = [](critical_section& x, critical_section& y) -> task<> {
        co_await when_all(enter(x), enter(y));
      };
      section_guard held_by_nobody = support::hold(which == 0 ? c : b);
      auto joining = [&]() -> task<> {
        const section_guard held = co_await (which == 0 ? b : c).lock();
        scope.spawn(work(b, c));
        co_await scope.join();
      };
      const foreign x = run(joining(), f);
      CHECK(f.refused());
      CHECK(f.names() == strings{"async_scope", which == 0 ? "b" : "c", "async_scope"});
      held_by_nobody.unlock();
      sync_wait(scope.join());
      check_usable(b);
      check_usable(c);
    }
  }

  TEST_CASE(
      "deadlock: children that have their scope only, because a guard was unlocked elsewhere") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (const bool before_they_start : {true, false}) {
      for (const bool first_child : {true, false}) {
        async_scope scope;
        gate go;
        gate ask;
        gate join;
        fate f;
        section_guard elsewhere;
        section_guard busy = support::hold(c);
        auto work = [&]() -> task<> {
          elsewhere = co_await a.lock();
          co_await go;
          co_await when_all(after(ask, first_child ? b : c), after(ask, first_child ? c : b));
        };
        const foreign x = run(lock_then_join(b, join, scope), f);
        scope.spawn(work());
        if (before_they_start) elsewhere.unlock();
        go.open();
        elsewhere.unlock();
        ask.open();
        CHECK(b.statistics().waiters == 1);
        CHECK(c.statistics().waiters == 1);
        join.open();
        CHECK(f.refused());
        busy.unlock();
        sync_wait(scope.join());
        for (critical_section* s : {&a, &b, &c}) check_usable(*s);
      }
    }
  }

  // --- handles -----------------------------------------------------------------------------------

  TEST_CASE("deadlock: a handle is awaited whose section's holder waits for us") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    critical_section b{section_options{.name = "b", .executor = l}};
    for (const bool handle_last : {true, false}) {
      gate ga;
      gate gb;
      fate fa;
      fate fb;
      int ran = 0;
      auto asks = [&]() -> task<> {
        co_await ga;
        auto h = b.submit([&ran] { ++ran; }, {.name = "submitted"});
        co_await h;
      };
      const foreign x = run(inside(a, asks), fa);
      const foreign y = run(hold_then(b, gb, a), fb);
      l.run();
      (handle_last ? gb : ga).open();
      l.run();
      (handle_last ? ga : gb).open();
      l.run();
      const fate& last = handle_last ? fa : fb;
      CHECK(last.refused());
      CHECK(last.names() == (handle_last ? strings{"b", "a", "b"} : strings{"a", "b", "a"}));
      if (handle_last) CHECK(last.text().find("b by submitted") != std::string::npos);
      CHECK((handle_last ? fb : fa).well());
      CHECK(ran == 1);
      check_from(l, a);
      check_from(l, b);
    }
  }

  TEST_CASE("deadlock: a handle whose execution has a deadline ends by itself") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    critical_section b{section_options{.name = "b", .executor = l}};
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    auto asks = [&]() -> task<> {
      co_await ga;
      const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(5);
      auto h = b.submit([] {}, {.deadline = soon});
      co_await h;
    };
    const foreign x = run(inside(a, asks), fa);
    const foreign y = run(hold_then(b, gb, a), fb);
    l.run();
    act(l, [&] { gb.open(); });
    act(l, [&] { ga.open(); });
    while (!fa.over) l.run();
    l.run();
    CHECK(fa.refused<deadline_exceeded>());
    CHECK(fb.well());
  }

  TEST_CASE("deadlock: a handle whose execution has a deadline, and has begun") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    critical_section b{section_options{.name = "b", .executor = l}};
    gate in_b;
    gate in_a;
    fate f;
    section_guard busy;
    auto wants_a = [&]() -> task<> {
      co_await in_b;
      co_await enter(a);
    };
    auto asks = [&]() -> task<> {
      co_await in_a;
      auto h = b.submit(wants_a, {.deadline = std::chrono::steady_clock::time_point::max() -
                                              std::chrono::hours(1)});
      co_await h;
    };
    SUBCASE("before it is awaited") {}
    SUBCASE("while it is awaited") {
      act(l, [&] { busy = b.try_lock().value(); });
    }
    const foreign x = run(inside(a, asks), f);
    l.run();
    in_a.open();
    l.run();
    CHECK_FALSE(f.over);
    act(l, [&] { busy.unlock(); });
    CHECK_FALSE(f.over);
    in_b.open();
    l.run();
    CHECK(f.refused());
    CHECK(f.names() == strings{"a", "b", "a"});
    check_from(l, a);
    check_from(l, b);
  }

  TEST_CASE("deadlock: an execution awaits its own handle") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    std::optional<execution_handle<void>> own;
    bool refused = false;
    auto body = [&]() -> task<> {
      try {
        co_await *own;
      } catch (const deadlock_error& e) {
        refused = e.path().size() == 2;
      }
    };
    own.emplace(a.submit(body));
    l.run();
    CHECK(refused);
    own.reset();
    check_from(l, a);
  }

  TEST_CASE("deadlock: a handle whose wait was refused may be awaited again, outside the section") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    std::optional<execution_handle<int>> h;
    fate inside_it;
    fate f;
    int got = 0;
    auto body = [&]() -> task<> {
      h.emplace(a.submit([] { return 3; }));
      co_await *h;
    };
    auto again = [&]() -> task<> { got = co_await *h; };
    const foreign x = run(inside(a, body), inside_it);
    l.run_one();
    const foreign y = run(again(), f);
    l.run();
    CHECK(inside_it.refused());
    CHECK(f.well());
    CHECK(got == 3);
  }

  TEST_CASE("deadlock: a handle that has ended may be awaited by whoever holds its section") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    fate f;
    auto h = a.submit([] { return 1; });
    l.run();
    CHECK(h.ready());
    int got = 0;
    auto body = [&]() -> task<> { got = co_await h; };
    const foreign x = run(inside(a, body), f);
    l.run();
    CHECK(f.well());
    CHECK(got == 1);
  }

  TEST_CASE("deadlock: a handle whose body is over is no wait, though it is not ready yet") {
    critical_section a{"a"};
    loop l;
    std::optional<execution_handle<int>> h;
    fate f;
    int got = 0;
    bool not_ready = false;
    section_guard busy = support::hold(a);
    h.emplace(a.submit([] { return 7; }));
    // Served in the same drain as the body before, whose result is handed back with this one's.
    auto body = [&]() -> task<> {
      not_ready = !h->ready();
      got = co_await *h;
    };
    const foreign x = run(inside(a, body), f);
    act(l, [&] { busy.unlock(); });
    CHECK(f.well());
    CHECK(got == 7);
    CHECK(not_ready);
  }

  TEST_CASE("deadlock: a handle of a refused submit is ready, with its error") {
    critical_section a{"a"};
    critical_section b{"b"};
    sync_wait(b.close());
    fate f;
    auto body = [&]() -> task<> { co_await b.submit([] {}); };
    const foreign x = run(inside(a, body), f);
    CHECK(f.refused<section_closed>());
  }

  // --- joins -------------------------------------------------------------------------------------

  TEST_CASE("deadlock: a scope is joined whose work queues behind the section held") {
    critical_section a{"a"};
    for (const bool join_last : {true, false}) {
      async_scope scope;
      gate join;
      gate ask;
      fate f;
      const foreign x = run(lock_then_join(a, join, scope), f);
      bool work_refused = false;
      auto work = [&]() -> task<> {
        try {
          co_await after(ask, a);
        } catch (const reentry_error&) {
          throw std::runtime_error("spawned work is no part of the chain");
        } catch (const deadlock_error& e) {
          work_refused = e.path().front().section == "a" && e.path().back().section == "a" &&
                         e.path().size() == 3;
        }
      };
      scope.spawn(work());
      (join_last ? ask : join).open();
      CHECK_FALSE(f.over);
      (join_last ? join : ask).open();
      CHECK((join_last ? f.refused() : f.well()));
      CHECK(work_refused != join_last);
      if (join_last) CHECK(f.names() == strings{"async_scope", "a", "async_scope"});
      sync_wait(scope.join());
      check_usable(a);
    }
  }

  TEST_CASE("deadlock: work that closes the cycle ends with the error, and join rethrows it") {
    critical_section a{"a"};
    async_scope scope;
    gate join;
    gate ask;
    fate f;
    const foreign x = run(lock_then_join(a, join, scope), f);
    scope.spawn(after(ask, a));
    join.open();
    ask.open();
    CHECK(f.names() == strings{"a", "async_scope", "a"});
    sync_wait(scope.join());
    check_usable(a);
  }

  TEST_CASE("deadlock: work joins its own scope") {
    async_scope scope;
    gate g;
    fate f;
    auto work = [&]() -> task<> {
      co_await g;
      co_await scope.join();
    };
    scope.spawn(run_within(work(), f));
    g.open();
    CHECK(f.names() == strings{"async_scope", "async_scope"});
    sync_wait(scope.join());
  }

  TEST_CASE("deadlock: work joins its own scope from inside a section, or in a child") {
    critical_section a{"a"};
    async_scope scope;
    fate f[2];
    auto work = [&]() -> task<> { co_await scope.join(); };
    auto child = [&]() -> task<> { co_await when_all(enter(a), work()); };
    scope.spawn(run_within(inside(a, work), f[0]));
    scope.spawn(run_within(child(), f[1]));
    CHECK(f[0].refused());
    CHECK(f[1].refused());
    sync_wait(scope.join());
    check_usable(a);
  }

  TEST_CASE("deadlock: work of two scopes, or of three, joins the next one") {
    for (const std::size_t n : {2U, 3U}) {
      for (std::size_t last = 0; last != n; ++last) {
        std::deque<async_scope> scopes(n);
        std::deque<gate> gates(n);
        std::deque<fate> fates(n);
        for (std::size_t i = 0; i != n; ++i) {
          auto work = [](gate& g, async_scope& next) -> task<> {
            co_await g;
            co_await next.join();
          };
          scopes[i].spawn(run_within(work(gates[i], scopes[(i + 1) % n]), fates[i]));
        }
        for (std::size_t i = 1; i != n; ++i) gates[(last + i) % n].open();
        for (const fate& f : fates) CHECK_FALSE(f.over);
        gates[last].open();
        CHECK(fates[last].names() == strings(n + 1, "async_scope"));
        for (std::size_t i = 1; i != n; ++i) CHECK(fates[(last + i) % n].well());
        for (async_scope& s : scopes) sync_wait(s.join());
      }
    }
  }

  TEST_CASE("deadlock: the work of an ordered_scope is called after that") {
    critical_section a{"a"};
    ordered_scope scope;
    gate ask;
    gate join;
    fate f;
    auto joins = [&]() -> task<> {
      const section_guard held = co_await a.lock();
      co_await join;
      co_await scope.join();
    };
    scope.add(access_list(), [&] { return after(ask, a); });
    const foreign x = run(joins(), f);
    ask.open();
    join.open();
    CHECK(f.names() == strings{"ordered_scope", "a", "ordered_scope"});
    sync_wait(scope.join());
    check_usable(a);
  }

  TEST_CASE("foreign: what another library's coroutine waits below is called after what it is") {
    critical_section a{"a"};
    critical_section b{"b"};
    ordered_scope scope;
    gate ask;
    gate join;
    fate f;
    fate theirs;
    std::optional<foreign> y;
    auto joins = [&]() -> task<> {
      const section_guard held = co_await a.lock();
      co_await join;
      co_await scope.join();
    };
    auto work = [&]() -> task<> {
      co_await ask;
      y.emplace(ask_twice(b, a, theirs));
      co_await enter(a);
    };
    section_guard busy = support::hold(b);
    scope.add(access_list(), [&] { return work(); });
    const foreign x = run(joins(), f);
    ask.open();
    const std::string text = registry::wait_graph();
    CHECK(text.find("ordered_scope") != std::string::npos);
    CHECK(text.find("async_scope") == std::string::npos);
    join.open();
    CHECK(f.names() == strings{"ordered_scope", "a", "ordered_scope"});
    sync_wait(scope.join());
    busy.unlock();
    CHECK(theirs.well());
  }

  TEST_CASE("deadlock: what a stop ends as soon as it begins to wait closes no cycle") {
    for (const bool for_handle : {false, true}) {
      CAPTURE(for_handle);
      critical_section a{"a"};
      async_scope outer;
      async_scope inner;
      gate ask;
      fate join;
      fate work;
      std::optional<execution_handle<void>> handle;
      auto waits = [&]() -> task<> {
        co_await ask;
        if (for_handle) {
          co_await *handle;
        } else {
          co_await inner.join();
        }
      };
      auto joins = [&]() -> task<> {
        const section_guard held = co_await a.lock();
        if (for_handle) {
          handle.emplace(a.submit([] {}));
        } else {
          inner.spawn(enter(a));
        }
        outer.request_stop();
        co_await outer.join();
      };
      outer.spawn(run_within(waits(), work));
      const foreign x = run(joins(), join);
      ask.open();
      x.wait();  // who was sent away may have gone on elsewhere
      CHECK(work.refused<operation_cancelled>());
      CHECK(join.well());
      sync_wait(outer.join());
      sync_wait(inner.join());
      sync_wait(enter(a));  // behind what the handle is of
      check_usable(a);
    }
  }

  TEST_CASE("deadlock: the wait for a fiber goes on when a stop is asked for, and so closes one") {
    critical_section a{"a"};
    loop here;
    async_scope outer;
    gate ask;
    fate join;
    fate work;
    auto fiber = spawn_fiber(here, [&] { await(enter(a)); });
    auto waits = [&]() -> task<> {
      co_await ask;
      co_await std::move(fiber);
    };
    auto joins = [&]() -> task<> {
      const section_guard held = co_await a.lock();
      here.run();
      outer.request_stop();
      co_await outer.join();
    };
    outer.spawn(run_within(waits(), work));
    const foreign x = run(joins(), join);
    ask.open();
    CHECK(work.refused());
    CHECK(join.well());
    here.run();
    sync_wait(outer.join());
    check_usable(a);
  }

  TEST_CASE("deadlock: work joins an inner scope whose work queues behind us") {
    critical_section a{"a"};
    for (const int last : {0, 1, 2}) {
      async_scope outer;
      async_scope inner;
      gate join_outer;
      gate join_inner;
      gate ask;
      fate us;
      fate middle;
      fate innermost;
      auto work = [&]() -> task<> {
        co_await join_inner;
        co_await inner.join();
      };
      const foreign x = run(lock_then_join(a, join_outer, outer), us);
      outer.spawn(run_within(work(), middle));
      inner.spawn(run_within(after(ask, a), innermost));
      gate* const gates[] = {&join_outer, &join_inner, &ask};
      for (int i = 1; i != 3; ++i) gates[(last + i) % 3]->open();
      CHECK_FALSE(us.over);
      CHECK_FALSE(middle.over);
      CHECK_FALSE(innermost.over);
      gates[last]->open();
      const fate* const fates[] = {&us, &middle, &innermost};
      for (int i = 0; i != 3; ++i) {
        CHECK(fates[i]->refused() == (i == last));
        CHECK(fates[i]->over);
      }
      CHECK(fates[last]->names().size() == 4);
      sync_wait(outer.join());
      sync_wait(inner.join());
      check_usable(a);
    }
  }

  TEST_CASE("deadlock: a scope that may go on is joined inside a section without an error") {
    critical_section a{"a"};
    critical_section b{"b"};
    async_scope scope;
    gate g;
    gate join;
    fate f;
    const foreign x = run(lock_then_join(a, join, scope), f);
    scope.spawn(after(g, b));
    join.open();
    CHECK_FALSE(f.over);
    g.open();
    CHECK(f.well());
  }

  TEST_CASE("deadlock: work that is no coroutine is found like any other") {
    critical_section a{"a"};
    critical_section b{"b"};
    loop l;
    for (const int kind : {0, 1, 2, 3}) {
      async_scope scope;
      async_scope inner;
      gate join;
      gate ask;
      fate f;
      const foreign x = run(lock_then_join(a, join, scope), f);
      if (kind == 0) scope.spawn(a.execute([] {}));
      if (kind == 1) scope.spawn(a.lock());
      if (kind == 2) act(l, [&] { scope.spawn(a.submit([] {})); });
      if (kind == 3) {
        inner.spawn(after(ask, a));
        ask.open();
        scope.spawn(inner.join());
      }
      join.open();
      CHECK(f.refused());
      CHECK(f.names() == (kind == 3 ? strings{"async_scope", "async_scope", "a", "async_scope"}
                                    : strings{"async_scope", "a", "async_scope"}));
      l.run();
      sync_wait(scope.join());
      sync_wait(inner.join());
      check_usable(a);
    }
  }

  TEST_CASE("deadlock: children that are no coroutines are found like any other") {
    for (const int kind : {0, 1, 2}) {
      critical_section a{"a"};
      critical_section b{"b"};
      critical_section c{"c"};
      gate ga;
      gate gb;
      fate fa;
      fate fb;
      auto children = [&]() -> task<> {
        co_await ga;
        if (kind == 0) co_await when_all(c.lock(), b.execute([] {}));
        if (kind == 1) co_await when_all(b.lock(), c.close());
        if (kind == 2) co_await when_all(b.close(), c.execute([] {}));
      };
      const foreign x = run(inside(a, children), fa);
      const foreign y = run(hold_then(b, gb, a), fb);
      gb.open();
      ga.open();
      CHECK(fa.names() == strings{"b", "a", "b"});
      CHECK(fb.well());
      check_usable(a);
      check_usable(b);
    }
  }

  TEST_CASE("deadlock: a child joins a scope whose work waits for its sibling") {
    critical_section a{"a"};
    critical_section b{"b"};
    async_scope scope;
    gate g;
    gate ask;
    fate f;
    auto keeps = [&]() -> task<> {
      const section_guard held = co_await b.lock();
      ask.open();
      co_await g;
    };
    auto joins = [&]() -> task<> { co_await scope.join(); };
    auto children = [&]() -> task<> { co_await when_all(keeps(), joins()); };
    scope.spawn(after(ask, b));
    const foreign x = run(inside(a, children), f);
    CHECK_FALSE(f.over);
    g.open();
    CHECK(f.well());
    for (critical_section* s : {&a, &b}) check_usable(*s);
  }

  // --- foreign coroutines ------------------------------------------------------------------------

  TEST_CASE("foreign: one that outlives the body it was started in waits on its own") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (const bool with_guard : {false, true}) {
      for (const bool awaitable_body : {false, true}) {
        section_guard busy = support::hold(b);
        fate f;
        std::optional<foreign> detached;
        auto start = [&] {
          section_guard held;
          if (with_guard) held = std::move(c.try_lock().value());
          detached.emplace(ask_twice(b, a, f));
        };
        auto waiting_start = [&]() -> task<> {
          start();
          co_return;
        };
        if (awaitable_body) {
          sync_wait(a.execute(waiting_start));
        } else {
          sync_wait(a.execute(start));
        }
        check_usable(c);
        // Others search through what it has told.
        gate g[2];
        fate others[2];
        const foreign x = run(hold_then(c, g[0], b), others[0]);
        const foreign y = run(hold_then(a, g[1], c), others[1]);
        g[0].open();
        g[1].open();
        CHECK_FALSE(others[1].over);
        busy.unlock();
        CHECK(f.well());
        CHECK(others[0].well());
        CHECK(others[1].well());
        for (critical_section* s : {&a, &b, &c}) check_usable(*s);
      }
    }
  }

  TEST_CASE("foreign: one that outlives the work it was spawned in, and waits beside it") {
    critical_section a{"a"};
    critical_section b{"b"};
    section_guard busy = support::hold(b);
    async_scope scope;
    gate join;
    gate ask;
    fate f;
    fate joins;
    std::optional<foreign> detached;
    auto work = [&]() -> task<> {
      detached.emplace(ask_twice(b, b, f));
      co_await after(ask, a);
    };
    const foreign x = run(lock_then_join(a, join, scope), joins);
    scope.spawn(work());
    ask.open();
    CHECK(a.statistics().waiters == 1);
    join.open();
    CHECK(joins.refused());
    sync_wait(scope.join());
    CHECK_FALSE(f.over);
    busy.unlock();
    CHECK(f.well());
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("foreign: work that waits is found although a foreign coroutine beside it goes on") {
    critical_section a{"a"};
    critical_section b{"b"};
    section_guard busy = support::hold(b);
    async_scope scope;
    gate join;
    fate f;
    fate joins;
    std::optional<foreign> detached;
    auto work = [&]() -> task<> {
      detached.emplace(ask_twice(b, b, f));
      co_await enter(a);
    };
    const foreign x = run(lock_then_join(a, join, scope), joins);
    scope.spawn(work());
    busy.unlock();
    CHECK(f.well());
    join.open();
    CHECK(joins.refused());
    sync_wait(scope.join());
  }

  TEST_CASE(
      "foreign: one that waits with a guard, which is given to a sibling's parent meanwhile") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    section_guard busy = support::hold(c);
    fate f;
    fate whole;
    std::optional<foreign> detached;
    auto take = [](critical_section& s) -> task<section_guard> { co_return co_await s.lock(); };
    auto take_and_start = [&](critical_section& s) -> task<section_guard> {
      section_guard mine = co_await s.lock();
      detached.emplace(ask_twice(c, c, f));
      co_return mine;
    };
    auto both = [&]() -> task<> {
      auto [first, second] = co_await when_all(take(a), take_and_start(b));
      first.unlock();
      busy.unlock();
      second.unlock();
    };
    const foreign x = run(both(), whole);
    CHECK(whole.well());
    CHECK(f.well());
    for (critical_section* s : {&a, &b, &c}) check_usable(*s);
  }

  TEST_CASE("foreign: one that is resumed elsewhere takes its part of the chain with it") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    loop l;
    fate f;
    fate other;
    gate g;
    auto held = support::hold(c);
    auto guards = [](critical_section& mine, critical_section& via, critical_section& next,
                     loop& on, fate& what) -> foreign {
      try {
        const section_guard guard = co_await mine.lock({.resume_on = on});
        co_await via.execute([] {}, {.resume_on = on});
        co_await next.execute([] {});
      } catch (...) {
        what.error = std::current_exception();
      }
      what.over = true;
    };
    const foreign x = guards(a, c, b, l, f);
    l.run();
    const foreign y = run(hold_then(b, g, a), other);
    g.open();
    held.unlock();
    CHECK_FALSE(f.over);
    l.run();
    CHECK(f.names() == strings{"b", "a", "b"});
    CHECK(other.well());
    for (critical_section* each : {&a, &b, &c}) check_usable(*each);
  }

  // --- close -------------------------------------------------------------------------------------

  TEST_CASE("deadlock: a section is closed whose holder waits for us, and stays open") {
    for (const bool close_last : {true, false}) {
      critical_section mine{"mine"};
      critical_section theirs{"theirs"};
      gate g[2];
      fate closes;
      fate enters;
      auto closing = [&]() -> task<> {
        const section_guard held = co_await mine.lock();
        co_await g[0];
        co_await theirs.close();
      };
      const foreign x = run(closing(), closes);
      const foreign y = run(hold_then(theirs, g[1], mine), enters);
      g[close_last ? 1 : 0].open();
      g[close_last ? 0 : 1].open();
      CHECK((close_last ? closes : enters).refused());
      CHECK((close_last ? enters : closes).well());
      if (close_last) {
        CHECK(closes.names() == strings{"theirs", "mine", "theirs"});
        check_usable(theirs);
      } else {
        CHECK_THROWS_AS(theirs.try_execute([] {}), section_closed);
      }
      check_usable(mine);
    }
  }

  TEST_CASE("deadlock: a section is closed for the second time, whose holder waits for us") {
    critical_section mine{"mine"};
    critical_section theirs{"theirs"};
    gate g[2];
    fate first;
    fate second;
    fate enters;
    auto closing = [&]() -> task<> {
      const section_guard held = co_await mine.lock();
      co_await g[0];
      co_await theirs.close();
    };
    auto only_close = [&]() -> task<> { co_await theirs.close(); };
    const foreign x = run(closing(), second);
    const foreign y = run(hold_then(theirs, g[1], mine), enters);
    const foreign z = run(only_close(), first);
    g[1].open();
    CHECK_FALSE(first.over);
    g[0].open();
    CHECK(second.refused());
    CHECK(enters.well());
    CHECK(first.well());
    sync_wait(theirs.close());
    check_usable(mine);
  }

  // --- what is over, or let go, is no wait -------------------------------------------------------

  TEST_CASE("deadlock: a wait whose turn has come is over, though its chain has not gone on yet") {
    critical_section a{"a"};
    critical_section b{"b"};
    loop later;
    gate g;
    fate fa;
    fate fb;
    section_guard busy = support::hold(b);
    auto hops = [&]() -> task<> {
      const section_guard held = co_await a.lock();
      co_await b.execute([] {}, {.resume_on = later});
    };
    const foreign x = run(hops(), fa);
    const foreign y = run(hold_then(b, g, a), fb);
    busy.unlock();
    CHECK(later.pending() == 1);
    CHECK_FALSE(fa.over);
    // The other one has b now and waits for a, whose holder only has to be resumed.
    g.open();
    CHECK_FALSE(fb.over);
    later.run();
    CHECK(fa.well());
    CHECK(fb.well());
  }

  TEST_CASE("deadlock: a wait that is over is forgotten while its chain still holds the rest") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate g[2];
    fate fa;
    fate fb;
    section_guard busy = support::hold(b);
    auto twice = [&]() -> task<> {
      const section_guard held = co_await a.lock();
      co_await enter(b);
      co_await g[0];
    };
    const foreign x = run(twice(), fa);
    busy.unlock();
    const foreign y = run(hold_then(b, g[1], a), fb);
    g[1].open();
    CHECK_FALSE(fb.over);
    g[0].open();
    CHECK(fa.well());
    CHECK(fb.well());
  }

  TEST_CASE("deadlock: a guard that another thread has unlocked meanwhile is not in the way") {
    critical_section a{"a"};
    critical_section b{"b"};
    for (const bool on_top : {true, false}) {
      critical_section c{"c"};
      gate ga;
      gate gb;
      fate fa;
      fate fb;
      section_guard elsewhere;
      auto gives_away = [&]() -> task<> {
        elsewhere = co_await a.lock();
        section_guard above;
        if (!on_top) above = co_await c.lock();
        co_await ga;
        co_await enter(b);
      };
      const foreign x = run(gives_away(), fa);
      const foreign y = run(hold_then(b, gb, a), fb);
      ga.open();
      CHECK(b.statistics().waiters == 1);
      section_guard again;
      std::thread([&] {
        elsewhere.unlock();
        again = support::hold(a);
      }).join();
      gb.open();
      CHECK(a.statistics().waiters == 1);
      CHECK_FALSE(fb.over);
      again.unlock();
      CHECK(fa.well());
      CHECK(fb.well());
      for (critical_section* s : {&a, &b, &c}) check_usable(*s);
    }
  }

  TEST_CASE("deadlock: our own guard, unlocked by another thread, closes no cycle") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    gate ga;
    gate gb;
    fate fa;
    fate fb;
    section_guard elsewhere;
    auto gives_away = [&]() -> task<> {
      const section_guard kept = co_await c.lock();
      elsewhere = co_await a.lock();
      co_await ga;
      co_await enter(b);
    };
    const foreign x = run(gives_away(), fa);
    const foreign y = run(hold_then(b, gb, a), fb);
    section_guard again;
    std::thread([&] {
      elsewhere.unlock();
      again = support::hold(a);
    }).join();
    gb.open();
    ga.open();
    CHECK_FALSE(fa.over);
    again.unlock();
    CHECK(fa.well());
    CHECK(fb.well());
  }

  TEST_CASE("deadlock: two that only wait for the same section are no cycle") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    gate g[2];
    fate f[2];
    section_guard busy = support::hold(c);
    const foreign x = run(hold_then(a, g[0], c), f[0]);
    const foreign y = run(hold_then(b, g[1], c), f[1]);
    g[0].open();
    g[1].open();
    busy.unlock();
    CHECK(f[0].well());
    CHECK(f[1].well());
  }

  TEST_CASE("deadlock: who was refused waits no more, though its place is still in line") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate g[2];
    fate f[2];
    int refused = 0;
    auto asks_again = [&]() -> task<> {
      co_await g[1];
      for (int n = 0; n != 3; ++n) {
        try {
          co_await enter(a);
        } catch (const deadlock_error&) {
          ++refused;
        }
        CHECK(a.statistics().waiters == 0);
      }
    };
    const foreign x = run(hold_then(a, g[0], b), f[0]);
    const foreign y = run([&]() -> task<> { co_await b.execute(asks_again); }(), f[1]);
    g[0].open();
    CHECK(b.statistics().waiters == 1);
    g[1].open();
    CHECK(refused == 3);
    CHECK(f[0].well());
    CHECK(f[1].well());
    section_guard busy = support::hold(a);
    const foreign z = run(enter(a), f[0]);
    CHECK(a.statistics().waiters == 1);
    busy.unlock();
    check_usable(a);
  }

  // --- not seen ----------------------------------------------------------------------------------

  TEST_CASE("not seen: a guard that one child left behind while its sibling waits") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate g;
    fate fa;
    fate fb;
    section_guard left;
    auto leaves = [&]() -> task<> { left = co_await a.lock(); };
    auto children = [&]() -> task<> { co_await when_all(leaves(), after(g, b)); };
    const foreign x = run(children(), fa);
    const foreign y = run(lock_then(b, g, a), fb);
    g.open();
    CHECK_FALSE(fa.over);
    CHECK_FALSE(fb.over);
    left.unlock();
    CHECK(fa.well());
    CHECK(fb.well());
  }

  // --- other kinds of section, other threads -----------------------------------------------------

  TEST_CASE("deadlock: through synchronized data") {
    synchronized<int> a{1, {.name = "a"}};
    synchronized<int> b{2, {.name = "b"}};
    gate g[2];
    fate f[2];
    auto transfer = [](synchronized<int>& from, synchronized<int>& to, gate& at) -> task<> {
      auto body = [&](int& mine) -> task<> {
        co_await at;
        co_await to.execute([&mine](int& theirs) { std::swap(mine, theirs); });
      };
      co_await from.execute(body);
    };
    const foreign x = run(transfer(a, b, g[0]), f[0]);
    const foreign y = run(transfer(b, a, g[1]), f[1]);
    g[0].open();
    g[1].open();
    CHECK(f[1].names() == strings{"a", "b", "a"});
    CHECK(f[0].well());
    CHECK(sync_wait(a.execute([](int& v) { return v; })) == 2);
    CHECK(sync_wait(b.execute([](int& v) { return v; })) == 1);
  }

  TEST_CASE("deadlock: between sections that are bound to executors of their own") {
    loop la;
    loop lb;
    critical_section a{section_options{.name = "a", .executor = la}};
    critical_section b{section_options{.name = "b", .executor = lb}};
    gate g[2];
    fate f[2];
    const auto run_both = [&] {
      while (la.run() + lb.run() != 0) {
      }
    };
    const foreign x = run(hold_then(a, g[0], b), f[0]);
    const foreign y = run(lock_then(b, g[1], a), f[1]);
    run_both();
    g[0].open();
    run_both();
    CHECK_FALSE(f[0].over);
    g[1].open();
    run_both();
    CHECK(f[1].names() == strings{"a", "b", "a"});
    CHECK(f[0].well());
    check_from(la, a);
    check_from(lb, b);
  }

  TEST_CASE("deadlock: chains that have changed threads meanwhile") {
    critical_section a{"a"};
    critical_section b{"b"};
    thread_pool first{1};
    thread_pool second{1};
    gate g[2];
    auto hop = [](executor_ref to, critical_section& mine, gate& at,
                  critical_section& next) -> task<> {
      const section_guard held = co_await mine.lock();
      co_await schedule_on(to, pass(at));
      co_await schedule_on(to, enter(next));
    };
    std::thread opener([&] {
      while (g[0].waiting() == 0 || g[1].waiting() == 0) std::this_thread::yield();
      g[0].open();
      support::wait_for_waiters(b, 1);
      g[1].open();
    });
    CHECK_THROWS_AS(sync_wait(when_all(schedule_on(first, hop(second, a, g[0], b)),
                                       schedule_on(second, hop(first, b, g[1], a)))),
                    deadlock_error);
    opener.join();
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("deadlock: threads that block in each other's way") {
    critical_section a{"a"};
    critical_section b{"b"};
    std::atomic<int> refused{0};
    std::atomic<int> inside_both{0};
    const auto blocks = [&](critical_section& mine, critical_section& next) {
      sync_wait(mine.execute([&] {
        ++inside_both;
        while (inside_both.load() != 2) std::this_thread::yield();
        try {
          sync_wait(next.execute([] {}));
        } catch (const deadlock_error&) {
          ++refused;
        }
      }));
    };
    std::thread one([&] { blocks(a, b); });
    std::thread other([&] { blocks(b, a); });
    one.join();
    other.join();
    CHECK(refused >= 1);
    for (critical_section* s : {&a, &b}) {
      while (s->statistics().held) std::this_thread::yield();
      check_usable(*s);
    }
  }

  TEST_CASE("deadlock: a guard of a plain thread counts in a cycle") {
    critical_section a{"a"};
    critical_section b{"b"};
    gate g;
    fate f;
    const foreign x = run(hold_then(b, g, a), f);
    section_guard mine = std::move(a.try_lock().value());
    std::thread([&] { g.open(); }).join();
    CHECK(a.statistics().waiters == 1);
    CHECK_THROWS_AS(sync_wait(enter(b)), deadlock_error);
    CHECK_THROWS_AS(sync_wait(b.lock()), deadlock_error);
    mine.unlock();
    CHECK(f.well());
    check_usable(a);
    check_usable(b);
  }
}
