// executions.cpp - the last executions, by name.

#include "stress/crew.hpp"
#include "support/foreign.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <doctest/doctest.h>
#include <string>
#include <vector>

using namespace turnstile;
using support::foreign;

namespace {

// Recording for the length of a test.
struct keeping {
  explicit keeping(std::size_t n) { registry::keep_executions(n); }
  ~keeping() { registry::keep_executions(0); }
};

using strings = std::vector<std::string>;

strings names() {
  strings all;
  for (const execution_record& r : registry::executions()) all.push_back(r.name);
  return all;
}

foreign run_in(critical_section& cs, std::string_view name) {
  const execute_options options{.name = name};
  co_await cs.execute([] {}, options);
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("executions: by default nothing is kept") {
    critical_section cs{"unrecorded"};
    sync_wait(cs.execute([] {}));
    CHECK(registry::executions().empty());
  }

  TEST_CASE("executions: say what was run where, and by which line") {
    const keeping some(8);
    critical_section cs{"accounts"};
    critical_section unnamed;
    const unsigned line = std::source_location::current().line() + 1;
    sync_wait(cs.execute([] {}, {.name = "deposit"}));
    sync_wait(unnamed.execute([] {}));
    const std::vector<execution_record> all = registry::executions();
    REQUIRE(all.size() == 2);
    CHECK(all[0].name == "deposit");
    CHECK(all[0].section == "accounts");
    CHECK(all[0].resources.empty());
    CHECK(all[0].exclusive);
    CHECK(all[0].where.line() == line);
    CHECK(std::string(all[0].where.file_name()).ends_with("executions.cpp"));
    CHECK(all[1].name.empty());
    CHECK(all[1].section == "section #" + std::to_string(all[1].section_id));
    CHECK(all[0].section_id != all[1].section_id);
  }

  TEST_CASE("executions: only the last ones are kept, the oldest first") {
    const keeping some(3);
    critical_section cs;
    for (const char* const name : {"a", "b", "c", "d", "e"}) run_in(cs, name).wait();
    CHECK(names() == strings{"c", "d", "e"});
    registry::keep_executions(2);
    CHECK(names() == strings{"d", "e"});
    registry::keep_executions(4);
    run_in(cs, "f").wait();
    CHECK(names() == strings{"d", "e", "f"});
    registry::keep_executions(0);
    CHECK(names().empty());
    run_in(cs, "g").wait();
    CHECK(names().empty());
  }

  TEST_CASE("executions: of sections made before and after, bound ones too") {
    critical_section before{"before"};
    const keeping some(8);
    critical_section after{"after"};
    manual_executor loop;
    critical_section bound{section_options{.name = "bound", .executor = loop}};
    sync_wait(before.execute([] {}));
    sync_wait(after.execute([] {}));
    bool over = false;
    const foreign asks = support::await_in_foreign(bound.execute([] {}), over);
    loop.run();
    CHECK(over);
    const std::vector<execution_record> all = registry::executions();
    REQUIRE(all.size() == 3);
    CHECK(all[0].section == "before");
    CHECK(all[1].section == "after");
    CHECK(all[2].section == "bound");
  }

  TEST_CASE("executions: every way of asking is one") {
    const keeping some(16);
    critical_section cs{"all ways"};
    auto waits = []() -> task<> { co_return; };
    thread_pool pool{1};
    sync_wait(cs.execute([] {}, {.name = "execute"}));
    sync_wait(cs.execute(waits, {.name = "awaitable body"}));
    sync_wait(cs.execute([] {}, {.name = "elsewhere", .resume_on = pool}));
    sync_wait(cs.lock({.name = "lock"})).unlock();
    sync_wait(cs.submit([] {}, {.name = "submit"}));
    cs.post([] {}, {.name = "post"});
    sync_wait(cs.execute([] {}, {.name = "last"}));
    CHECK(cs.try_execute([] {}));
    CHECK(cs.try_lock().has_value());
    CHECK(names() == strings{"execute", "awaitable body", "elsewhere", "lock", "submit", "post",
                             "last", "", ""});
    CHECK(cs.statistics().executions == 9);
  }

  TEST_CASE("executions: in the order of acceptance, not of running") {
    const keeping some(8);
    critical_section cs;
    critical_section other;
    section_guard busy = support::hold(cs);
    const foreign waits = run_in(cs, "queued");
    run_in(other, "at once").wait();
    CHECK(names() == strings{"", "queued", "at once"});
    support::serve_here([&] { busy.unlock(); });
    CHECK(waits.done());
    CHECK(names().size() == 3);
  }

  TEST_CASE("executions: refused ones are not among them") {
    critical_section cs{"closed"};
    critical_section busy{"busy"};
    sync_wait(cs.close());
    const keeping some(8);
    CHECK_THROWS_AS(sync_wait(cs.execute([] {})), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.lock()), section_closed);
    CHECK_THROWS_AS(cs.post([] {}), section_closed);
    CHECK_THROWS_AS(cs.try_execute([] {}), section_closed);
    CHECK_THROWS_AS(sync_wait(cs.submit([] {})), section_closed);
    const section_guard held = support::hold(busy);
    CHECK_FALSE(busy.try_execute([] {}));
    CHECK_FALSE(busy.try_lock().has_value());
    critical_section twice{"twice"};
    auto enter = [&]() -> task<> { co_await twice.execute([] {}); };
    CHECK_THROWS_AS(sync_wait(twice.execute(enter, {.name = "outer"})), reentry_error);
    CHECK(names() == strings{"", "outer"});
  }

  TEST_CASE("executions: name what they declared, claimed before or not") {
    critical_section cs{"accounts"};
    resource balance{"balance"};
    const resource a{"a"}, b{"b"}, c{"c"}, d{"d"};
    const execute_options few{.uses = {balance}};
    const execute_options more{.uses = {balance, a, b, c, d}, .exclusive_resource_access = false};
    sync_wait(cs.execute([] {}, few));
    const keeping some(8);
    sync_wait(cs.execute([] {}, few));
    for (int i = 0; i != 2; ++i) sync_wait(cs.execute([] {}, more));
    const std::vector<execution_record> all = registry::executions();
    REQUIRE(all.size() == 3);
    CHECK(all[0].resources == strings{"balance"});
    CHECK(all[1].resources == strings{"balance", "a", "b", "c", "d"});
    CHECK(all[2].resources == all[1].resources);
    CHECK(all[0].exclusive);
    CHECK(!all[1].exclusive);
  }

  TEST_CASE("executions: refused because they would never end, they are not among them") {
    const keeping some(8);
    critical_section a{"a"};
    critical_section b{"b"};
    manual_executor lane;
    int refused = 0;
    auto both = [&](critical_section& first, critical_section& second, bool locks) -> task<> {
      const section_guard held = co_await first.lock({.name = "first"});
      co_await yield();
      try {
        if (locks) {
          const section_guard inner = co_await second.lock({.name = "second"});
        } else {
          co_await second.execute([] {}, {.name = "second"});
        }
      } catch (const deadlock_error&) {
        ++refused;
      }
    };
    for (const bool locks : {false, true}) {
      async_scope scope({.executor = lane});
      scope.spawn(both(a, b, locks));
      scope.spawn(both(b, a, locks));
      lane.run();
      sync_wait(scope.join());
    }
    CHECK(refused == 2);
    CHECK(names() == strings{"first", "first", "second", "first", "first", "second"});
  }

  TEST_CASE("executions: refused after close while others wait, they are not among them") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    const keeping some(8);
    bool closed = false;
    const foreign closes = support::await_in_foreign(cs.close(), closed);
    CHECK_THROWS_AS(cs.post([] {}), section_closed);
    const foreign asks = run_in(cs, "too late");
    CHECK(asks.done());
    CHECK_THROWS_AS(asks.rethrow(), section_closed);
    CHECK(names().empty());
    busy.unlock();
    CHECK(closed);
  }

  TEST_CASE("executions: refused by close while they waited outside, they are not among them") {
    critical_section a(
        section_options{.name = "a", .max_waiters = 1, .on_full = when_full::wait_outside});
    critical_section b("b");
    section_guard busy = support::hold(a);
    const keeping some(8);
    async_scope scope;
    scope.spawn(a.execute([] {}, {.name = "in line"}));
    scope.spawn(a.execute([] {}, {.name = "outside"}));
    scope.spawn(execute(std::tie(a, b), [] {}, {.name = "both"}));
    auto handle = a.submit([] {}, {.name = "submitted"});
    scope.spawn(a.close());
    busy.unlock();
    CHECK_THROWS_AS(sync_wait(scope.join()), section_closed);
    CHECK_THROWS_AS(sync_wait(std::move(handle)), section_closed);
    CHECK(names() == strings{"in line"});
  }

  TEST_CASE("executions: kept, forgotten and read while others make, use and destroy sections") {
    constexpr int users = 4;
    constexpr int each = 2000;
    std::atomic<int> at_work{users};
    std::atomic<bool> wrong{false};
    critical_section shared{"shared"};
    int ran = 0;
    stress::together(users + 1, [&](int who) {
      if (who == users) {
        for (std::size_t n = 0; at_work.load() != 0; ++n) {
          registry::keep_executions(n % 3 * 10);
          const std::vector<execution_record> all = registry::executions();
          if (all.size() > n % 3 * 10) wrong = true;
          for (const execution_record& r : all) {
            if (r.section != "shared" && r.section != "own") wrong = true;
          }
        }
        return;
      }
      for (int i = 0; i != each; ++i) {
        critical_section own{"own"};
        sync_wait(own.execute([] {}));
        sync_wait(shared.execute([&] { ++ran; }));
      }
      at_work.fetch_sub(1);
    });
    registry::keep_executions(0);
    CHECK_FALSE(wrong.load());
    CHECK(ran == users * each);
  }

  TEST_CASE("executions: in several sections, one in each with all that they declared") {
    critical_section a{"a"};
    critical_section b{"b"};
    const resource x{"x"}, y{"y"};
    const execute_options both{.name = "both", .uses = {x, y}};
    sync_wait(a.execute([] {}, {.uses = {x}}));  // claimed before
    const keeping some(8);
    sync_wait(execute(std::tie(b, a), [] {}, {.name = "none"}));
    sync_wait(execute(std::tie(b, a), [] {}, both));
    const std::vector<execution_record> all = registry::executions();
    CHECK(names() == strings{"none", "none", "both", "both"});
    REQUIRE(all.size() == 4);
    CHECK(all[0].resources.empty());
    for (const std::size_t i : {2u, 3u}) CHECK(all[i].resources == strings{"x", "y"});
  }

  TEST_CASE("executions: refused half-way through several sections, they are in none of them") {
    critical_section a{"a"};
    critical_section b{"b"};
    sync_wait(b.close());
    const keeping some(8);
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), [] {})), section_closed);
    section_guard busy = support::hold(a);  // recorded
    bool over = false;
    const foreign waits = support::await_in_foreign(execute(std::tie(a, b), [] {}), over);
    CHECK(names().size() == 2);
    support::serve_here([&] { busy.unlock(); });
    CHECK(waits.done());
    CHECK(names().size() == 1);
  }

  TEST_CASE("executions: in several sections that are bound, and refused there, are as any other") {
    support::loop lane;
    critical_section a{section_options{.name = "a", .executor = lane}};
    critical_section b{section_options{.name = "b", .executor = lane}};
    const keeping some(8);
    const auto ask_both = [&](bool& over) {
      return [](critical_section& x, critical_section& y, bool& out) -> foreign {
        try {
          co_await execute(std::tie(x, y), [] {});
        } catch (const section_closed&) {
        }
        out = true;
      }(a, b, over);
    };
    bool ran = false;
    const foreign runs = ask_both(ran);
    lane.run();
    CHECK(ran);
    CHECK(names().size() == 2);
    bool closed = false;
    const foreign closes = support::await_in_foreign(b.close(), closed);
    lane.run();
    CHECK(closed);
    bool refused = false;
    const foreign is_refused = ask_both(refused);
    lane.run();
    CHECK(refused);
    CHECK(a.statistics().executions == 1);
    CHECK(names().size() == 2);
  }
}
