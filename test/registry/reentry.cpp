// reentry.cpp - asking for a section that the chain of awaits already holds is an error, not a
// hang.

#include "support/at_its_end.hpp"
#include "support/enter_stopped.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

using namespace turnstile;
using support::enter_stopped;
using support::foreign;
using support::gate;
using support::loop;

namespace {

thread_local support::at_its_end thread_last;

using line_number = std::source_location;

unsigned line(line_number at = line_number::current()) { return at.line(); }

task<> enter(critical_section& cs) {
  co_await cs.execute([] {});
}

task<> enter_deep(critical_section& cs, int depth) {
  if (depth == 0) {
    co_await enter(cs);
  } else {
    co_await enter_deep(cs, depth - 1);
  }
}

// Runs `ask` inside cs, as the body of a waiting execution.
task<> inside(critical_section& cs, std::function<task<>()> ask) {
  auto body = [&] { return ask(); };
  co_await cs.execute(body);
}

std::vector<path_step> path_of(task<> t) {
  try {
    sync_wait(std::move(t));
  } catch (const reentry_error& e) {
    return {e.path().begin(), e.path().end()};
  }
  return {};
}

std::vector<std::string> names(const std::vector<path_step>& path) {
  std::vector<std::string> all;
  for (const path_step& step : path) all.push_back(step.section);
  return all;
}

using strings = std::vector<std::string>;

void check_usable(critical_section& cs) {
  CHECK_FALSE(cs.statistics().held);
  CHECK(sync_wait(cs.execute([] { return 1; })) == 1);
  CHECK(cs.try_lock().has_value());
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("reentry: directly, in an awaitable body") {
    critical_section cs{"a"};
    CHECK_THROWS_AS(sync_wait(inside(cs, [&] { return enter(cs); })), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: is a deadlock_error and a logic_error") {
    static_assert(std::is_base_of_v<deadlock_error, reentry_error>);
    static_assert(std::is_base_of_v<std::logic_error, deadlock_error>);
    critical_section cs;
    CHECK_THROWS_AS(sync_wait(inside(cs, [&] { return enter(cs); })), deadlock_error);
  }

  TEST_CASE("reentry: a body that returns the execution itself") {
    critical_section cs{"a"};
    CHECK_THROWS_AS(sync_wait(cs.execute([&] { return cs.execute([] {}); })), reentry_error);
    CHECK_THROWS_AS(sync_wait(cs.execute([&] { return cs.lock(); })), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: through several awaits") {
    critical_section cs{"a"};
    CHECK_THROWS_AS(sync_wait(inside(cs, [&] { return enter_deep(cs, 3); })), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: through another section") {
    critical_section a{"a"};
    critical_section b{"b"};
    auto ask_a = [&] { return enter(a); };
    auto through_b = [&] { return inside(b, ask_a); };
    CHECK_THROWS_AS(sync_wait(inside(a, through_b)), reentry_error);
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("reentry: by lock and close as well as by execute") {
    critical_section cs{"a"};
    auto lock = [&]() -> task<> { co_await cs.lock(); };
    auto close = [&]() -> task<> { co_await cs.close(); };
    CHECK_THROWS_AS(sync_wait(inside(cs, lock)), reentry_error);
    CHECK_THROWS_AS(sync_wait(inside(cs, close)), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: after the chain has changed threads") {
    critical_section cs{"a"};
    thread_pool pool{1};
    auto elsewhere = [&]() -> task<> { co_await schedule_on(pool, enter(cs)); };
    CHECK_THROWS_AS(sync_wait(inside(cs, elsewhere)), reentry_error);
    auto after = [&]() -> task<> {
      co_await schedule_on(pool, []() -> task<> { co_return; }());
      co_await enter(cs);
    };
    CHECK_THROWS_AS(sync_wait(inside(cs, after)), reentry_error);
    auto yielding = [&]() -> task<> {
      co_await yield();
      co_await enter(cs);
    };
    CHECK_THROWS_AS(sync_wait(schedule_on(pool, inside(cs, yielding))), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: after a foreign awaitable resumed the chain on another thread") {
    critical_section cs{"a"};
    gate g;
    auto wait_then_enter = [&]() -> task<> {
      co_await g;
      co_await enter(cs);
    };
    std::thread opener([&] {
      while (g.waiting() == 0) std::this_thread::yield();
      g.open();
    });
    CHECK_THROWS_AS(sync_wait(inside(cs, wait_then_enter)), reentry_error);
    opener.join();
    check_usable(cs);
  }

  TEST_CASE("reentry: in a child of when_all") {
    critical_section cs{"a"};
    auto ask = [&]() -> task<> { co_await when_all(enter(cs), []() -> task<> { co_return; }()); };
    CHECK_THROWS_AS(sync_wait(inside(cs, ask)), reentry_error);
    auto ask_range = [&]() -> task<> {
      std::vector<task<>> all;
      all.push_back(enter(cs));
      co_await when_all(std::move(all));
    };
    CHECK_THROWS_AS(sync_wait(inside(cs, ask_range)), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: through a guard, until it is unlocked or detached") {
    critical_section cs{"a"};
    bool usable_after = false;
    auto ask = [&]() -> task<> {
      section_guard g = co_await cs.lock();
      bool refused = false;
      try {
        co_await enter(cs);
      } catch (const reentry_error&) {
        refused = true;
      }
      g.unlock();
      if (refused) co_await cs.execute([&] { usable_after = true; });
    };
    sync_wait(ask());
    CHECK(usable_after);
  }

  TEST_CASE(
      "reentry: a guard that moved to another place still counts for the chain that took it") {
    critical_section cs{"a"};
    section_guard kept;
    auto ask = [&]() -> task<> {
      kept = co_await cs.lock();
      co_await enter(cs);
    };
    CHECK_THROWS_AS(sync_wait(ask()), reentry_error);
    kept.unlock();
    check_usable(cs);
  }

  TEST_CASE("reentry: a guard that a task returned counts for its awaiter") {
    critical_section cs{"a"};
    auto take = [&]() -> task<section_guard> { co_return co_await cs.lock(); };
    auto ask = [&]() -> task<> {
      const section_guard g = co_await take();
      co_await enter(cs);
    };
    CHECK_THROWS_AS(sync_wait(ask()), reentry_error);
    check_usable(cs);
  }

  TEST_CASE("reentry: a guard that a submitted body left behind counts for who awaits the handle") {
    critical_section a{"a"};
    critical_section b{"b"};
    auto plain = [&] { return std::move(b.try_lock().value()); };
    auto waits = [&]() -> task<section_guard> { co_return co_await b.lock(); };
    auto ask = [&](auto body) -> task<> {
      auto handle = a.submit(body);
      const section_guard g = co_await handle;
      co_await enter_stopped(b);
    };
    CHECK_THROWS_AS(sync_wait(ask(plain)), reentry_error);
    CHECK_THROWS_AS(sync_wait(ask(waits)), reentry_error);
    {
      const section_guard threads_own = sync_wait(a.submit(plain));
      CHECK_THROWS_AS(sync_wait(enter_stopped(b)), reentry_error);
    }
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("reentry: a guard that a submitted body left behind is nobody's if nobody awaits it") {
    loop l;
    critical_section a{section_options{.name = "a", .executor = l}};
    critical_section b{"b"};
    section_guard kept;
    const auto leave = [&] { kept = std::move(b.try_lock().value()); };
    SUBCASE("posted") { a.post(leave); }
    SUBCASE("dropped before") { static_cast<void>(a.submit(leave)); }
    SUBCASE("dropped afterwards") {
      const auto handle = a.submit(leave);
      l.run();
    }
    l.run();
    CHECK(kept.owns_lock());
    CHECK_THROWS_AS(sync_wait(enter_stopped(b)), operation_cancelled);
    kept.unlock();
    check_usable(b);
  }

  TEST_CASE("reentry: a plain thread is a chain of its own") {
    critical_section cs{"a"};
    section_guard g = std::move(cs.try_lock().value());
    CHECK_THROWS_AS(sync_wait(cs.execute([] {})), reentry_error);
    CHECK_THROWS_AS(sync_wait(cs.lock()), reentry_error);
    bool other_thread_was_refused = false;
    std::thread other([&] {
      try {
        sync_wait(cs.execute([] {}));
      } catch (const reentry_error&) {
        other_thread_was_refused = true;
      }
    });
    while (cs.statistics().waiters == 0) std::this_thread::yield();
    g.unlock();
    other.join();
    CHECK_FALSE(other_thread_was_refused);
  }

  TEST_CASE("reentry: through sync_wait in a plain body") {
    critical_section a{"a"};
    critical_section b{"b"};
    CHECK_THROWS_AS(sync_wait(a.execute([&] { sync_wait(a.execute([] {})); })), reentry_error);
    CHECK_THROWS_AS(
        sync_wait(a.execute([&] { sync_wait(b.execute([&] { sync_wait(enter(a)); })); })),
        reentry_error);
    CHECK(a.try_execute([&] { CHECK_THROWS_AS(sync_wait(enter(a)), reentry_error); }));
    sync_wait(a.execute([&] { sync_wait(enter(b)); }));
    check_usable(a);
    check_usable(b);
  }

  TEST_CASE("reentry: by a foreign coroutine that the library resumed inside the section") {
    critical_section cs{"a"};
    bool refused = false;
    auto body = [&]() -> task<> {
      const foreign f = [](critical_section& s, bool& r) -> foreign {
        try {
          co_await s.execute([] {});
        } catch (const reentry_error&) {
          r = true;
        }
      }(cs, refused);
      co_return;
    };
    sync_wait(cs.execute(body));
    CHECK(refused);
    check_usable(cs);
  }

  TEST_CASE("reentry: try_execute and try_lock are empty instead") {
    critical_section cs{"a"};
    bool tried = true;
    bool locked = true;
    auto ask = [&]() -> task<> {
      tried = cs.try_execute([] {});
      locked = cs.try_lock().has_value();
      co_return;
    };
    sync_wait(inside(cs, ask));
    CHECK_FALSE(tried);
    CHECK_FALSE(locked);
  }

  TEST_CASE("reentry: caught inside, the body and its chain go on") {
    critical_section a{"a"};
    critical_section b{"b"};
    int went_on = 0;
    auto ask = [&]() -> task<> {
      for (int i = 0; i != 3; ++i) {
        try {
          co_await enter(a);
        } catch (const reentry_error&) {
          ++went_on;
        }
        co_await enter(b);
      }
    };
    sync_wait(inside(a, ask));
    CHECK(went_on == 3);
    CHECK(a.statistics().executions == 1);
    CHECK(b.statistics().executions == 3);
  }

  TEST_CASE("path: from the outermost holder to the refused request") {
    critical_section a{"accounts"};
    unsigned asked_at = 0;
    auto ask = [&]() -> task<> {
      asked_at = line() + 1;
      co_await a.execute([] {});
    };
    auto whole = [&]() -> task<> { co_await a.execute(ask); };
    const unsigned held_at = line() - 1;
    const std::vector<path_step> path = path_of(whole());
    REQUIRE(path.size() == 2);
    CHECK(names(path) == strings{"accounts", "accounts"});
    CHECK(path[0].where.line() == held_at);
    CHECK(path[1].where.line() == asked_at);
    CHECK(std::string(path[0].where.file_name()).ends_with("reentry.cpp"));
  }

  TEST_CASE("path: names every section on the way") {
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    auto ask = [&] { return enter(b); };
    auto in_c = [&] { return inside(c, ask); };
    auto in_b = [&] { return inside(b, in_c); };
    CHECK(names(path_of(inside(a, in_b))) == strings{"b", "c", "b"});
  }

  TEST_CASE("path: a guard is a step like any other") {
    critical_section a{"a"};
    critical_section b{"b"};
    unsigned locked_at = 0;
    auto whole = [&]() -> task<> {
      locked_at = line() + 1;
      const section_guard g = co_await a.lock();
      co_await inside(b, [&] { return enter(a); });
    };
    const std::vector<path_step> path = path_of(whole());
    REQUIRE(path.size() == 3);
    CHECK(names(path) == strings{"a", "b", "a"});
    CHECK(path[0].where.line() == locked_at);
  }

  TEST_CASE("path: a guard's frame that is used again says what the new guard holds") {
    std::optional<critical_section> s(std::in_place, "first");
    const auto lock_twice = [&]() -> task<> {
      const section_guard g = co_await s->lock();
      const section_guard again = co_await s->lock();
    };
    CHECK(names(path_of(lock_twice())) == strings{"first", "first"});
    s.emplace("second");  // in the same place
    CHECK(names(path_of(lock_twice())) == strings{"second", "second"});
    CHECK(names(path_of(lock_twice())) == strings{"second", "second"});
    s.emplace();
    const strings unnamed = names(path_of(lock_twice()));
    REQUIRE(unnamed.size() == 2);
    CHECK(unnamed[0].starts_with("section #"));
    CHECK(unnamed[0] == unnamed[1]);
    critical_section other{"other"};
    const auto lock_both = [&]() -> task<> {
      const section_guard g = co_await other.lock();
      const section_guard inner = co_await s->lock();
      const section_guard again = co_await other.lock();
    };
    CHECK(names(path_of(lock_both())) == strings{"other", unnamed[0], "other"});
    check_usable(*s);
    check_usable(other);
  }

  TEST_CASE("re-entry: of a thread that ends, in a destructor of an object of its own") {
    critical_section cs;
    section_guard stays;
    bool refused = false;
    const auto ask = [&] {
      try {
        cs.execute_blocking([] {});
      } catch (const reentry_error&) {
        refused = true;
      }
    };
    const auto lock = [&] {
      stays = section_guard();
      stays = sync_wait(cs.lock());
    };
    SUBCASE("made after the thread had its first guard") {
      std::thread([&] {
        lock();
        thread_last.call = ask;
        lock();
      }).join();
    }
    SUBCASE("made before") {
      std::thread([&] {
        thread_last.call = ask;
        lock();
      }).join();
    }
    CHECK(refused);
  }

  TEST_CASE("path: unnamed sections have numbers, the same in every error") {
    critical_section a;
    critical_section b;
    const strings in_a = names(path_of(inside(a, [&] { return enter(a); })));
    const strings in_b = names(path_of(inside(b, [&] { return enter(b); })));
    REQUIRE(in_a.size() == 2);
    REQUIRE(in_b.size() == 2);
    CHECK(in_a[0].starts_with("section #"));
    CHECK(in_a[0].size() > std::string("section #").size());
    CHECK(in_a[0] == in_a[1]);
    CHECK(in_a[0] != in_b[0]);
    CHECK(in_a == names(path_of(inside(a, [&] { return enter(a); }))));
  }

  TEST_CASE("path: what() has the names, and the error can be copied") {
    critical_section a{"accounts"};
    critical_section b{"journal"};
    auto ask = [&] { return enter(a); };
    auto in_b = [&] { return inside(b, ask); };
    try {
      sync_wait(inside(a, in_b));
      FAIL("not refused");
    } catch (const deadlock_error& e) {
      const deadlock_error copy = e;
      const std::string text = copy.what();
      CHECK(text.find("accounts") != std::string::npos);
      CHECK(text.find("journal") != std::string::npos);
      CHECK(copy.path().size() == 3);
    }
  }

  TEST_CASE("path: the same after the chain changed threads") {
    critical_section a{"a"};
    critical_section b{"b"};
    thread_pool pool{1};
    auto hop = [&]() -> task<> { co_await schedule_on(pool, enter(a)); };
    auto in_b = [&] { return inside(b, hop); };
    CHECK(names(path_of(inside(a, in_b))) == strings{"a", "b", "a"});
  }
}
