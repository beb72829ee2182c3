// lock_order.cpp - orders that could end in a deadlock are told before they do.

#include "stress/crew.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <deque>
#include <doctest/doctest.h>
#include <functional>
#include <optional>
#include <source_location>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

using namespace turnstile;

namespace {

using strings = std::vector<std::string>;
using kind = lock_order_report::kind;

struct told {
  kind what;
  strings classes;
  strings first;
  strings second;
  std::vector<path_step> second_path;
};

std::vector<told> reports;

strings names(std::span<const path_step> path) {
  strings all;
  for (const path_step& s : path) all.push_back(s.section);
  return all;
}

void keep(const lock_order_report& r) {
  reports.push_back({r.what,
                     {r.classes.begin(), r.classes.end()},
                     names(r.first),
                     names(r.second),
                     {r.second.begin(), r.second.end()}});
}

// Checking for the length of a test.
struct checking {
  explicit checking(lock_order_hook hook = &keep) {
    reports.clear();
    registry::check_lock_order(hook);
  }
  ~checking() { registry::check_lock_order(nullptr); }
};

using sections = std::vector<std::reference_wrapper<critical_section>>;

task<> enter_from(const sections& all, std::size_t i) {
  if (i == all.size()) co_return;
  auto inner = [&] { return enter_from(all, i + 1); };
  co_await all[i].get().execute(inner);
}

void take_both(critical_section& one, critical_section& other) {
  sync_wait(execute(std::tie(one, other), [] {}));
}

// Takes them one inside the other.
void nest(const sections& all) { sync_wait(enter_from(all, 0)); }

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("lock order: off, nothing is told") {
    critical_section a{"a"};
    critical_section b{"b"};
    reports.clear();
    nest({a, b});
    nest({b, a});
    CHECK(reports.empty());
  }

  TEST_CASE("lock order: the same order again and again is fine") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    for (int i = 0; i != 3; ++i) {
      nest({a, b, c});
      nest({a, c});
      nest({b, c});
    }
    CHECK(reports.empty());
  }

  TEST_CASE("lock order: two ways round are told with both paths, once") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    for (int i = 0; i != 3; ++i) {
      nest({a, b});
      nest({b, a});
    }
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].what == kind::inversion);
    CHECK(reports[0].classes == strings{"a", "b"});
    CHECK(reports[0].first == strings{"a", "b"});
    CHECK(reports[0].second == strings{"b", "a"});
  }

  TEST_CASE("lock order: each step of a path says where it was asked for") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    nest({a, b});
    unsigned inner_line = 0;
    auto inner = [&]() -> task<> {
      inner_line = std::source_location::current().line() + 1;
      co_await a.execute([] {});
    };
    const unsigned outer_line = std::source_location::current().line() + 1;
    sync_wait(b.execute(inner));
    REQUIRE(reports.size() == 1);
    REQUIRE(reports[0].second_path.size() == 2);
    CHECK(reports[0].second_path[0].where.line() == outer_line);
    CHECK(reports[0].second_path[1].where.line() == inner_line);
    CHECK(std::string(reports[0].second_path[0].where.file_name()).ends_with("lock_order.cpp"));
  }

  TEST_CASE("lock order: around a cycle of three") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    nest({a, b});
    nest({b, c});
    CHECK(reports.empty());
    nest({c, a});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].what == kind::inversion);
    CHECK(reports[0].classes == strings{"a", "b", "c"});
    CHECK(reports[0].first == strings{"a", "b", "b", "c"});
    CHECK(reports[0].second == strings{"c", "a"});
  }

  TEST_CASE("lock order: around a cycle of five hundred, on a fiber's stack") {
    const checking on;
    thread_pool pool(1);
    std::deque<critical_section> all;
    for (int i = 0; i != 500; ++i) all.emplace_back("number " + std::to_string(i));
    auto f = pool.spawn_fiber([&] {
      for (std::size_t i = 0; i != all.size(); ++i) {
        const section_guard outer = turnstile::await(all[i].lock());
        const section_guard inner = turnstile::await(all[(i + 1) % all.size()].lock());
      }
    });
    sync_wait(std::move(f));
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].classes.size() == all.size());
  }

  TEST_CASE("lock order: what lies between does not hide it, and a path names all that is held") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section x{"x"};
    critical_section unnamed;
    nest({a, x, unnamed, b});
    nest({b, a});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].classes == strings{"a", "b"});
    REQUIRE(reports[0].first.size() == 4);
    CHECK(reports[0].first[0] == "a");
    CHECK(reports[0].first[1] == "x");
    CHECK(reports[0].first[2].starts_with("section #"));
    CHECK(reports[0].first[3] == "b");
    CHECK(reports[0].second == strings{"b", "a"});
  }

  TEST_CASE("lock order: under one common section both orders are fine") {
    const checking on;
    critical_section gate{"gate"};
    critical_section unnamed_gate;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    critical_section d{"d"};
    nest({gate, a, b});
    nest({gate, b, a});
    nest({unnamed_gate, c, d});
    nest({unnamed_gate, d, c});
    CHECK(reports.empty());
  }

  TEST_CASE("lock order: what the parent of children holds is their gate, as registry.hpp says") {
    const checking on;
    critical_section held_by_parent;
    critical_section a{"a"};
    critical_section b{"b"};
    const sections one{a, b};
    const sections other{b, a};
    auto children = [&]() -> task<> {
      co_await when_all(enter_from(one, 0), enter_from(other, 0));
    };
    sync_wait(held_by_parent.execute(children));
    CHECK(reports.empty());
    sync_wait(children());
    CHECK(reports.size() == 1);
  }

  TEST_CASE("lock order: a gate on one side only, or another of the same name, is none") {
    const checking on;
    critical_section gate{"gate"};
    critical_section same_name{"gate"};
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    critical_section d{"d"};
    nest({gate, a, b});
    nest({gate, b, a});
    CHECK(reports.empty());
    nest({b, a});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].first == strings{"gate", "a", "b"});
    nest({gate, c, d});
    nest({same_name, d, c});
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].classes == strings{"c", "d"});
  }

  TEST_CASE("lock order: of a cycle of three, two under one gate exclude each other") {
    const checking on;
    critical_section gate{"gate"};
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    nest({gate, a, b});
    nest({b, c});
    nest({gate, c, a});
    CHECK(reports.empty());
    nest({a, b});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].classes == strings{"b", "c", "a"});
  }

  TEST_CASE("lock order: guards count from lock to unlock, on the thread that has them") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    section_guard g = sync_wait(a.lock());
    sync_wait(b.execute([] {}));
    g.unlock();
    sync_wait(b.lock()).unlock();
    g = sync_wait(b.lock());
    CHECK(reports.empty());
    section_guard h = sync_wait(a.lock());
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].first == strings{"a", "b"});
    CHECK(reports[0].second == strings{"b", "a"});
  }

  TEST_CASE("lock order: what was only tried is no step, but is held") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    nest({a, b});
    auto try_a = [&]() -> task<> {
      CHECK(a.try_execute([] {}));
      CHECK(a.try_lock().has_value());
      co_return;
    };
    sync_wait(b.execute(try_a));
    CHECK(reports.empty());
    nest({c, a});
    const std::optional<section_guard> tried = a.try_lock();
    sync_wait(c.execute([] {}));
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].second == strings{"a", "c"});
  }

  TEST_CASE("lock order: spawned work is seen like any other") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    const sections one_way{a, b};
    const sections other_way{b, a};
    async_scope scope;
    scope.spawn(enter_from(one_way, 0));
    scope.spawn(enter_from(other_way, 0));
    sync_wait(scope.join());
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].first == strings{"a", "b"});
    CHECK(reports[0].second == strings{"b", "a"});
  }

  TEST_CASE("lock order: unnamed sections have no class") {
    const checking on;
    critical_section a;
    critical_section b;
    critical_section c{"c"};
    nest({a, b});
    nest({b, a});
    nest({a, c});
    nest({c, a});
    CHECK(reports.empty());
  }

  TEST_CASE("lock order: sections of one name are one class, with their container") {
    const checking on;
    critical_section a1{"a"};
    critical_section a2{"a"};
    critical_section b1{"b"};
    critical_section b2{"b"};
    nest({a1, b1});
    nest({b2, a2});
    CHECK(reports.size() == 1);
    const auto shop = critical_section::open("x", "shop");
    const auto bank = critical_section::open("x", "bank");
    critical_section y{"y"};
    nest({*shop, y});
    nest({y, *bank});
    CHECK(reports.size() == 1);
    nest({y, *shop});
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].classes == strings{"shop/x", "y"});
  }

  TEST_CASE("lock order: one of a class inside another is told, unless they may nest") {
    const checking on;
    critical_section parent{"node"};
    critical_section child{"node"};
    nest({parent, child});
    nest({child, parent});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].what == kind::same_class);
    CHECK(reports[0].classes == strings{"node"});
    CHECK(reports[0].second == strings{"node", "node"});

    registry::allow_nested("branch");
    critical_section trunk{"branch"};
    critical_section twig{"branch"};
    nest({trunk, twig});
    CHECK(reports.size() == 1);

    critical_section tree{"tree"};
    critical_section left{"leaf"};
    critical_section right{"leaf"};
    nest({tree, left, right});
    CHECK(reports.size() == 1);
    nest({right, left});
    CHECK(reports.size() == 2);
  }

  TEST_CASE("lock order: several of one request are taken by age, against who nests them") {
    for (const bool tie_first : {true, false}) {
      CAPTURE(tie_first);
      const checking on;
      critical_section a{"a"};
      critical_section b{"b"};
      if (tie_first) take_both(b, a);
      nest({b, a});
      if (!tie_first) take_both(b, a);
      REQUIRE(reports.size() == 1);
      CHECK(reports[0].what == kind::inversion);
      CHECK(reports[0].first == (tie_first ? strings{"a", "b"} : strings{"b", "a"}));
      CHECK(reports[0].second == (tie_first ? strings{"b", "a"} : strings{"a", "b"}));
    }
  }

  TEST_CASE("lock order: what is held below several of one request is in order with each of them") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section outer{"outer"};
    auto inner = [&]() -> task<> { co_await execute(std::tie(a, b), [] {}); };
    sync_wait(outer.execute(inner));
    CHECK(reports.empty());
    nest({a, outer});
    CHECK(reports.size() == 1);
    nest({b, outer});
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].first == strings{"outer", "a", "b"});
  }

  TEST_CASE("lock order: several of one request and who nests them exclude each other by a gate") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section gate{"gate"};
    auto inner = [&]() -> task<> { co_await execute(std::tie(a, b), [] {}); };
    sync_wait(gate.execute(inner));
    nest({gate, b, a});
    CHECK(reports.empty());
  }

  TEST_CASE("lock order: several of one request are in no cycle with other such requests") {
    const checking on;
    critical_section x{"x"};
    critical_section y{"y"};
    critical_section younger_x{"x"};
    take_both(x, y);
    take_both(y, younger_x);
    take_both(x, younger_x);  // of one class
    CHECK(reports.empty());
    nest({x, y});  // as they are taken there, but from now on without an order of age
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].classes == strings{"y", "x"});
    CHECK(reports[0].first == strings{"y", "x"});
  }

  TEST_CASE("lock order: a declared order is told at the first step against it") {
    const checking on;
    critical_section city{"city"};
    critical_section street{"street"};
    critical_section house{"house"};
    nest({house, city});
    CHECK(reports.empty());
    registry::declare_order(std::array<std::string_view, 3>{"city", "street", "house"});
    nest({city, house});
    nest({city, street, house});
    CHECK(reports.empty());
    nest({house, city});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].what == kind::declared);
    CHECK(reports[0].second == strings{"house", "city"});
    critical_section outer{"outer"};
    nest({outer, street, city});
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].what == kind::declared);
    CHECK(reports[1].classes == strings{"city", "street"});
    CHECK(reports[1].first == strings{"city", "street"});
  }

  TEST_CASE("lock order: what is against a declared order is told though it was an inversion") {
    const checking on;
    critical_section north{"north"};
    critical_section south{"south"};
    nest({north, south});
    nest({south, north});
    REQUIRE(reports.size() == 1);
    CHECK(reports[0].what == kind::inversion);
    registry::declare_order(std::array<std::string_view, 2>{"north", "south"});
    nest({south, north});
    REQUIRE(reports.size() == 2);
    CHECK(reports[1].what == kind::declared);
  }

  TEST_CASE("lock order: a declared order outlives the checking, what was seen does not") {
    registry::declare_order(std::array<std::string_view, 2>{"upper", "lower"});
    critical_section upper{"upper"};
    critical_section lower{"lower"};
    critical_section a{"a"};
    critical_section b{"b"};
    {
      const checking on;
      nest({a, b});
    }
    const checking on;
    nest({b, a});
    CHECK(reports.empty());
    nest({lower, upper});
    CHECK(reports.size() == 1);
  }

  TEST_CASE("lock order: an order is seen across threads and awaits") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    thread_pool pool{2};
    auto hop = [&]() -> task<> {
      co_await schedule_on(pool, yield());
      co_await b.execute([] {});
    };
    sync_wait(a.execute(hop));
    std::jthread([&] { nest({b, a}); }).join();
    CHECK(reports.size() == 1);
  }

  TEST_CASE("lock order: the hook may throw, and may look in") {
    const checking on([](const lock_order_report&) {
      static_cast<void>(registry::sections());
      registry::check_lock_order(nullptr);
      reports.push_back({});
      throw std::runtime_error("from the hook");
    });
    critical_section a{"a"};
    critical_section b{"b"};
    nest({a, b});
    CHECK_NOTHROW(nest({b, a}));
    CHECK(reports.size() == 1);
    CHECK(a.statistics().refused == 0);
  }

  TEST_CASE("lock order: re-entry is an error and no order") {
    const checking on;
    critical_section a{"a"};
    critical_section b{"b"};
    CHECK_THROWS_AS(nest({a, b, a}), reentry_error);
    CHECK(reports.empty());
  }

  TEST_CASE("lock order: four threads nest at once, each inversion is told once") {
    static std::atomic<int> count;
    count = 0;
    const checking on([](const lock_order_report&) { ++count; });
    critical_section a{"a"};
    critical_section b{"b"};
    critical_section c{"c"};
    critical_section one_at_a_time{"one at a time"};
    stress::together(4, [&](int who) {
      for (int i = 0; i != 500; ++i) {
        critical_section own{"own"};
        nest({a, own});
        nest({a, b});
        if (who == 0) nest({a, c});
      }
    });
    CHECK(count == 0);
    stress::together(4, [&](int) {
      for (int i = 0; i != 200; ++i) {
        critical_section own{"own"};
        nest({own, one_at_a_time});
      }
    });
    CHECK(count == 0);
    nest({b, a});
    nest({c, a});
    CHECK(count == 2);
  }
}
