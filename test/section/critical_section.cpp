// critical_section.cpp - what a section is: options, name, size, numbers.

#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <doctest/doctest.h>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

using namespace turnstile;
using support::foreign;
using support::gate;

namespace {

foreign run_in(critical_section& cs) {
  co_await cs.execute([] {});
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("section: is neither copyable nor movable, and small") {
    static_assert(!std::is_copy_constructible_v<critical_section>);
    static_assert(!std::is_move_constructible_v<critical_section>);
    static_assert(!std::is_copy_assignable_v<critical_section>);
    static_assert(!std::is_move_assignable_v<critical_section>);
#if !defined(TURNSTILE_RING_CYCLE)
    static_assert(sizeof(critical_section) <= 256);
#endif
    static_assert(std::is_trivially_destructible_v<section_options>);
    static_assert(std::is_trivially_destructible_v<execute_options>);
    static_assert(std::is_aggregate_v<section_options>);
    static_assert(std::is_aggregate_v<execute_options>);
    static_assert(std::is_same_v<std::underlying_type_t<release>, int>);
  }

  TEST_CASE("section: copies its name; without one it is empty") {
    std::string text = "a name";
    critical_section named{text};
    critical_section by_options{section_options{.name = text}};
    text = "other!";
    CHECK(named.name() == "a name");
    CHECK(by_options.name() == "a name");
    const critical_section unnamed;
    CHECK(unnamed.name().empty());
    static_assert(noexcept(unnamed.name()));
    static_assert(noexcept(unnamed.statistics()));
  }

  TEST_CASE("section: sections of the same name are distinct") {
    critical_section a{"same"};
    critical_section b{"same"};
    const section_guard held = support::hold(a);
    CHECK(b.try_execute([] {}));
  }

  TEST_CASE("section: a ring capacity that is no power of two is an invalid argument") {
    for (const std::size_t bad : {0, 3, 6, 12, 1000}) {
      CHECK_THROWS_AS(critical_section(section_options{.ring_capacity = bad}),
                      std::invalid_argument);
    }
    for (const std::size_t good : {1, 2, 8, 16, 1024}) {
      CHECK_NOTHROW(critical_section(section_options{.ring_capacity = good}));
    }
  }

  TEST_CASE("section: the ring's capacity is no limit on waiters") {
    for (const std::size_t cells : {1, 2, 8, 32}) {
      critical_section cs{section_options{.ring_capacity = cells}};
      section_guard busy = support::hold(cs);
      std::vector<foreign> all;
      for (int i = 0; i != 100; ++i) all.push_back(run_in(cs));
      CHECK(cs.statistics().waiters == 100);
      support::serve_here([&] { busy.unlock(); });
      CHECK(cs.statistics().executions == 101);
    }
  }

  TEST_CASE("statistics: of a new section are all zero") {
    const critical_section cs;
    const section_statistics s = cs.statistics();
    CHECK(s.executions == 0);
    CHECK(s.withdrawn == 0);
    CHECK(s.refused == 0);
    CHECK(s.waiters == 0);
    CHECK(s.most_waiters == 0);
    CHECK_FALSE(s.held);
  }

  TEST_CASE("statistics: count bodies that ran, thrown or not") {
    critical_section cs;
    sync_wait(cs.execute([] {}));
    CHECK_THROWS(sync_wait(cs.execute([] { throw 1; })));
    sync_wait(cs.execute([]() -> task<> { co_return; }));
    CHECK(cs.try_execute([] {}));
    sync_wait(cs.submit([] {}));
    sync_wait(cs.lock()).unlock();
    CHECK(cs.statistics().executions == 6);
    CHECK(cs.statistics().most_waiters == 0);
  }

  TEST_CASE("statistics: an execution counts before its awaiter resumes") {
    critical_section cs;
    std::vector<std::uint64_t> seen;
    auto note = [](critical_section& s, std::vector<std::uint64_t>& all) -> foreign {
      co_await s.execute([] {});
      all.push_back(s.statistics().executions);
    };
    const foreign at_once = note(cs, seen);
    section_guard busy = support::hold(cs);
    const foreign queued = note(cs, seen);
    busy.unlock();
    CHECK(seen == std::vector<std::uint64_t>{1, 3});
  }

  TEST_CASE("statistics: count who waits now, and the most that ever did") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    std::vector<foreign> all;
    for (std::size_t i = 1; i != 6; ++i) {
      all.push_back(run_in(cs));
      CHECK(cs.statistics().waiters == i);
    }
    CHECK(cs.statistics().held);
    support::serve_here([&] { busy.unlock(); });
    CHECK(cs.statistics().waiters == 0);
    CHECK(cs.statistics().most_waiters == 5);
    CHECK_FALSE(cs.statistics().held);
  }

  TEST_CASE("statistics: each of many bodies in a row sees how many wait behind it") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    std::vector<std::size_t> seen;
    auto look = [&] { seen.push_back(cs.statistics().waiters); };
    std::vector<foreign> all;
    std::array<bool, 50> over{};
    for (bool& o : over) all.push_back(support::await_in_foreign(cs.execute(look), o));
    support::serve_here([&] { busy.unlock(); });
    REQUIRE(seen.size() == over.size());
    for (std::size_t i = 0; i != seen.size(); ++i) CHECK(seen[i] == over.size() - 1 - i);
  }

  TEST_CASE("statistics: a body sees itself as holding, and those behind it as waiting") {
    critical_section cs;
    gate g;
    section_statistics inside;
    auto look = [&]() -> task<> {
      co_await g;
      inside = cs.statistics();
    };
    bool over = false;
    const foreign first = support::await_in_foreign(cs.execute(look), over);
    const foreign second = run_in(cs);
    g.open();
    CHECK(inside.held);
    CHECK(inside.waiters == 1);
    CHECK(inside.executions == 0);
  }
}
