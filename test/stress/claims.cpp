// claims.cpp - many sections claim and end, and resources with them: no conflict is missed, nothing stays.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

constexpr int threads = 4;
constexpr std::size_t objects = 6;

// Who runs bodies on one thing: at most one section, or any number that only read.
class used {
 public:
  void come(bool exclusive) {
    const int before = users_.fetch_add(exclusive ? one_writer : 1);
    if (exclusive ? before != 0 : before >= one_writer) wrong_.store(true);
  }
  void go(bool exclusive) { users_.fetch_sub(exclusive ? one_writer : 1); }
  bool wrong() const { return wrong_.load(); }

 private:
  static constexpr int one_writer = 1000;

  std::atomic<int> users_{0};
  std::atomic<bool> wrong_{false};
};

// Each has a resource beside it, or is known by its address.
struct thing : used {
  resource beside;
};

resource_ref reference(const thing& t, std::size_t i) {
  return i % 2 == 0 ? resource_ref(t.beside) : resource_of(t);
}

using things = std::array<thing, objects>;

bool try_to_use(critical_section& cs, things& all, dice& d, bool exclusive) {
  std::vector<std::size_t> which;
  std::vector<resource_ref> uses;
  for (std::size_t n = 1 + d.below(3); n != 0; --n) {
    const std::size_t i = d.below(objects);
    bool there = false;
    for (const std::size_t seen : which) there = there || seen == i;
    if (there) continue;
    which.push_back(i);
    uses.push_back(reference(all[i], i));
  }
  const auto body = [&] {
    for (const std::size_t i : which) all[i].come(exclusive);
    for (const std::size_t i : which) all[i].go(exclusive);
  };
  try {
    sync_wait(cs.execute(std::ref(body), {.uses = std::span<const resource_ref>(uses),
                                          .exclusive_resource_access = exclusive}));
  } catch (const exclusive_access_error&) {
    return false;
  }
  return true;
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("claims: sections of several threads come, claim and go") {
    things all;
    const int rounds = stress::times_scale(stress::sanitized ? 1000 : 10000);
    std::atomic<int> ran{0};
    std::atomic<int> refused{0};
    stress::together(threads, [&](int t) {
      dice d(static_cast<std::uint32_t>(t) + 1);
      for (int i = 0; i != rounds; ++i) {
        critical_section cs;
        const bool exclusive = d.one_in(3);
        for (std::uint32_t n = d.below(4); n != 0; --n) {
          (try_to_use(cs, all, d, exclusive) ? ran : refused).fetch_add(1);
        }
      }
    });
    CHECK(ran != 0);
    CHECK(refused != 0);
    critical_section last;
    for (std::size_t i = 0; i != objects; ++i) {
      CHECK_FALSE(all[i].wrong());
      CHECK_NOTHROW(sync_wait(last.execute([] {}, {.uses = reference(all[i], i)})));
    }
  }

  TEST_CASE("claims: shared sections that several threads use, and resources that come and go") {
    const int rounds = stress::times_scale(stress::sanitized ? 100 : 1000);
    dice d(7);
    for (int round = 0; round != rounds; ++round) {
      std::array<critical_section, 3> sections;
      auto all = std::make_unique<things>();
      const bool exclusive = d.one_in(2);
      stress::together(threads, [&](int t) {
        dice mine(static_cast<std::uint32_t>(round * threads + t));
        for (int i = 0; i != 20; ++i) {
          critical_section& cs = sections[mine.below(3)];
          if (!try_to_use(cs, *all, mine, exclusive)) REQUIRE(exclusive);
        }
      });
      for (const thing& t : *all) REQUIRE_FALSE(t.wrong());
      all.reset();
    }
  }

  TEST_CASE("claims: one section's threads, a close, and what is left is what ran") {
    const int rounds = stress::times_scale(stress::sanitized ? 200 : 2000);
    dice d(11);
    for (int round = 0; round != rounds; ++round) {
      critical_section cs;
      const resource v;
      std::atomic<bool> ran{false};
      stress::together(threads, [&](int t) {
        if (t == 0) {
          sync_wait(cs.close());
          return;
        }
        try {
          sync_wait(cs.execute([] {}, {.uses = v}));
          ran = true;
        } catch (const section_closed&) {
        }
      });
      critical_section other;
      if (ran) {
        REQUIRE_THROWS_AS(sync_wait(other.execute([] {}, {.uses = v})), exclusive_access_error);
      } else {
        REQUIRE_NOTHROW(sync_wait(other.execute([] {}, {.uses = v})));
      }
    }
  }
}
