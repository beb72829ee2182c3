// live_sections.cpp - which sections there are, while they come and go.

#include "stress/crew.hpp"
#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

using namespace turnstile;

namespace {

std::vector<section_record> named(std::string_view name) {
  std::vector<section_record> all = registry::sections();
  std::erase_if(all, [&](const section_record& r) { return r.name != name; });
  return all;
}

std::size_t how_many() { return registry::sections().size(); }

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("sections: a section is among them from its constructor to its destructor") {
    CHECK(named("seen").empty());
    {
      const critical_section cs{"seen"};
      REQUIRE(named("seen").size() == 1);
      CHECK(named("seen")[0].container.empty());
    }
    CHECK(named("seen").empty());
  }

  TEST_CASE("sections: each has a number of its own, the one that errors say") {
    critical_section first;
    critical_section second;
    const std::vector<section_record> all = named("");
    REQUIRE(all.size() >= 2);
    const std::uint64_t id = all[all.size() - 2].id;
    CHECK(id < all.back().id);
    std::string said;
    auto again = [&]() -> task<> { co_await second.execute([] {}); };
    try {
      sync_wait(second.execute(again));
    } catch (const reentry_error& e) {
      said = e.path()[0].section;
    }
    CHECK(said == "section #" + std::to_string(all.back().id));
  }

  TEST_CASE("sections: the oldest first, more of them than a chunk holds") {
    const std::size_t before = how_many();
    std::vector<std::unique_ptr<critical_section>> many;
    for (int i = 0; i != 3000; ++i) many.push_back(std::make_unique<critical_section>());
    std::vector<section_record> all = registry::sections();
    CHECK(all.size() == before + many.size());
    CHECK(std::ranges::is_sorted(all, {}, &section_record::id));
    CHECK(std::ranges::adjacent_find(all, {}, &section_record::id) == all.end());
    for (std::size_t i = 0; i < many.size(); i += 2) many[i].reset();
    CHECK(how_many() == before + many.size() / 2);
    many.clear();
    CHECK(how_many() == before);
  }

  TEST_CASE("sections: those that are shared tell their container") {
    const auto shared = critical_section::open("shared and seen", "bank");
    const auto plain = critical_section::open("shared and seen");
    const std::vector<section_record> all = named("shared and seen");
    REQUIRE(all.size() == 2);
    CHECK(all[0].container == "bank");
    CHECK(all[1].container.empty());
  }

  TEST_CASE("sections: a constructor that throws leaves none behind") {
    const std::size_t before = how_many();
    CHECK_THROWS(critical_section(section_options{.name = "not made", .ring_capacity = 3}));
    CHECK(how_many() == before);
  }

  TEST_CASE("sections: statistics are those of the section") {
    critical_section cs{"busy"};
    sync_wait(cs.execute([] {}));
    const section_guard held = support::hold(cs);
    const section_record r = named("busy").at(0);
    CHECK(r.statistics.executions == 1);
    CHECK(r.statistics.held);
  }

  TEST_CASE("sections: looked at while others make, use and destroy them") {
    constexpr int makers = 4;
    constexpr int each = 3000;
    std::atomic<int> at_work{makers};
    std::atomic<bool> wrong{false};
    critical_section lasting{"lasting"};
    stress::together(makers + 1, [&](int who) {
      if (who == makers) {
        while (at_work.load() != 0) {
          const std::vector<section_record> all = registry::sections();
          const auto known = std::ranges::count(all, std::string("lasting"), &section_record::name);
          const auto whole = [](const section_record& r) {
            return r.name.empty() || r.name == "brief" || r.name == "lasting" || r.name.size() > 40;
          };
          if (known != 1 || !std::ranges::all_of(all, whole)) wrong = true;
        }
        return;
      }
      for (int i = 0; i != each; ++i) {
        critical_section brief{i % 2 == 0 ? "brief" : ""};
        critical_section other{std::string(50, static_cast<char>('a' + who))};
        sync_wait(brief.execute([] {}));
        sync_wait(lasting.execute([] {}));
        const std::optional<section_guard> g = other.try_lock();
      }
      at_work.fetch_sub(1);
    });
    CHECK_FALSE(wrong.load());
    CHECK(lasting.statistics().executions == makers * each);
    CHECK(named("brief").empty());
  }
}
