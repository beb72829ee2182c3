// claims.cpp - many sections claim and end, and resources with them: no conflict is missed, nobody
// is refused without one, nothing stays.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

constexpr int threads = 4;
constexpr std::size_t objects = 6;

// Each has a resource beside it, or is known by its address.
struct thing {
  resource beside;
};
using things = std::array<thing, objects>;
using some = std::vector<std::size_t>;  // by their places in `things`, each once

resource_ref reference(const thing& t, std::size_t i) {
  return i % 2 == 0 ? resource_ref(t.beside) : resource_of(t);
}

some pick(dice& d) {
  some which;
  for (std::size_t n = 1 + d.below(3); n != 0; --n) {
    const std::size_t i = d.below(objects);
    if (std::ranges::find(which, i) == which.end()) which.push_back(i);
  }
  return which;
}

template <class Body>
bool try_to_use(critical_section& cs, const things& all, const some& which, bool exclusive,
                Body body) {
  std::vector<resource_ref> uses;
  for (const std::size_t i : which) uses.push_back(reference(all[i], i));
  try {
    sync_wait(cs.execute(std::ref(body), {.uses = std::span<const resource_ref>(uses),
                                          .exclusive_resource_access = exclusive}));
  } catch (const exclusive_access_error&) {
    return false;
  }
  return true;
}

// One clock for all threads: what has the smaller number did not come later.
using tick = std::uint64_t;
tick now() {
  static std::atomic<tick> ticks{0};
  return ticks.fetch_add(1);
}

// A section's use of one thing. The claim was made between `asked` and `got`, and ended with the
// section, between `ends` and `gone`.
struct use {
  bool exclusive;
  tick asked, got;
  tick ends = 0, gone = 0;
};

struct refusal {
  bool exclusive;
  some which;
  tick asked, told;
};

// What one thread saw. Its sections come one after the other, so uses of one thing are in order of
// time.
struct record {
  std::array<std::vector<use>, objects> uses;
  std::vector<refusal> refusals;
};

void live(const things& all, record& mine, dice& d) {
  const bool exclusive = d.one_in(3);
  std::array<std::optional<use>, objects> claims;
  tick ends;
  {
    critical_section cs;
    for (unsigned n = d.below(4); n != 0; --n) {
      some which = pick(d);
      const tick asked = now();
      const bool ran = try_to_use(cs, all, which, exclusive, [] {});
      const tick told = now();
      if (ran) {
        for (const std::size_t i : which) {
          if (!claims[i]) claims[i] = use{exclusive, asked, told};
        }
      } else {
        mine.refusals.push_back({exclusive, std::move(which), asked, told});
      }
      if (d.one_in(4)) std::this_thread::yield();  // so that others meet its claims
    }
    ends = now();
  }
  const tick gone = now();
  for (std::size_t i = 0; i != objects; ++i) {
    if (!claims[i]) continue;
    claims[i]->ends = ends;
    claims[i]->gone = gone;
    mine.uses[i].push_back(*claims[i]);
  }
}

// Which of them may have been claims at some time between the two.
std::span<const use> between(const std::vector<use>& all, tick from, tick to) {
  const auto first = std::ranges::lower_bound(all, from, {}, &use::gone);
  const auto last = std::ranges::lower_bound(first, all.end(), to, {}, &use::asked);
  return {first, last};
}

struct sums {
  int side_by_side = 0;  // on one thing at the same time, and both shared it
  int missed = 0;        // the same, and they must not
  int refused = 0;
  int in_vain = 0;  // there was nobody to refuse them for
};

// Of two threads.
void count_meetings(const record& one, const record& other, sums& total) {
  for (std::size_t i = 0; i != objects; ++i) {
    for (const use& a : one.uses[i]) {
      for (const use& b : between(other.uses[i], a.got, a.ends)) {
        if (std::max(a.got, b.got) > std::min(a.ends, b.ends)) continue;
        ++(a.exclusive || b.exclusive ? total.missed : total.side_by_side);
      }
    }
  }
}

// Whether `other` may have had a claim that was in its way.
bool may_refuse(const record& other, const refusal& r) {
  return std::ranges::any_of(r.which, [&](std::size_t i) {
    return std::ranges::any_of(between(other.uses[i], r.asked, r.told),
                               [&](const use& u) { return u.exclusive || r.exclusive; });
  });
}

void add_up(const std::array<record, threads>& seen, sums& total) {
  for (const record& one : seen) {
    for (const record& other : seen) {
      if (&one < &other) count_meetings(one, other, total);
    }
    for (const refusal& r : one.refusals) {
      const auto is_in_the_way = [&](const record& other) {
        return &other != &one && may_refuse(other, r);
      };
      ++total.refused;
      if (!std::ranges::any_of(seen, is_in_the_way)) ++total.in_vain;
    }
  }
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("claims: sections of several threads come, claim and go") {
    const things all;
    const int rounds = stress::times_scale(stress::sanitized ? 1 : 10);
    sums total;
    for (int round = 0; round != rounds; ++round) {
      std::array<record, threads> seen;
      stress::together(threads, [&](int t) {
        dice d(static_cast<std::uint32_t>(round * threads + t));
        for (int i = 0; i != 1000; ++i) live(all, seen[static_cast<std::size_t>(t)], d);
      });
      add_up(seen, total);
    }
    CHECK(total.missed == 0);
    CHECK(total.in_vain == 0);
    CHECK(total.side_by_side != 0);
    CHECK(total.refused != 0);
    critical_section last;
    for (std::size_t i = 0; i != objects; ++i) {
      CHECK_NOTHROW(sync_wait(last.execute([] {}, {.uses = reference(all[i], i)})));
    }
  }

  TEST_CASE("claims: shared sections that several threads use, and resources that come and go") {
    const int rounds = stress::times_scale(stress::sanitized ? 100 : 1000);
    dice d(7);
    for (int round = 0; round != rounds; ++round) {
      std::array<critical_section, 3> sections;
      const auto all = std::make_unique<things>();
      const bool exclusive = d.one_in(2);
      // For the rest of the round.
      std::array<std::atomic<const critical_section*>, objects> owners{};
      std::atomic<bool> conflict{false};
      using refused = std::pair<const critical_section*, some>;
      std::array<std::vector<refused>, threads> refusals;
      stress::together(threads, [&](int t) {
        dice mine(static_cast<std::uint32_t>(round * threads + t));
        for (int i = 0; i != 20; ++i) {
          critical_section& cs = sections[mine.below(3)];
          some which = pick(mine);
          const auto body = [&] {
            for (const std::size_t k : which) {
              const critical_section* owner = nullptr;
              if (!owners[k].compare_exchange_strong(owner, &cs) && owner != &cs && exclusive) {
                conflict = true;
              }
            }
          };
          if (!try_to_use(cs, *all, which, exclusive, body)) {
            refusals[static_cast<std::size_t>(t)].emplace_back(&cs, std::move(which));
          }
        }
      });
      REQUIRE_FALSE(conflict.load());
      for (const auto& of_one : refusals) {
        for (const auto& [cs, which] : of_one) {
          REQUIRE(exclusive);
          REQUIRE(std::ranges::any_of(which, [&, by = cs](std::size_t k) {
            return owners[k].load() != nullptr && owners[k].load() != by;
          }));
        }
      }
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
