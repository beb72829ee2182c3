// registry.cpp - objects that are looked at while they come and go.
//
// The table has two places in a chunk here, and numbers begin again after eight.

#include "registry/living.hpp"
#include "schedule/scenario.hpp"

#include <turnstile/critical_section.hpp>
#include <turnstile/detail/atomic.hpp>
#include <turnstile/registry.hpp>

#include <array>
#include <memory>
#include <set>
#include <utility>
#include <vector>

using namespace schedule;
using turnstile::detail::living;
using turnstile::detail::relaxed;

namespace {

// Its field is written while nobody can see it, and read by whoever looks at it.
struct thing {
  guarded<int> whole{0};
  atomic<bool> watched{false};
};

using table = living<thing>;

class listed {
 public:
  explicit listed(table& all) : all_(&all) {
    thing_.whole = 1;
    number_ = all.add(thing_);
  }
  ~listed() {
    all_->remove(thing_, number_);
    thing_.whole = 0;
  }
  listed(const listed&) = delete;
  listed& operator=(const listed&) = delete;

  thing& operator*() noexcept { return thing_; }
  std::uint32_t number() const noexcept { return number_; }

 private:
  table* all_;
  thing thing_;
  std::uint32_t number_;
};

// The numbers of all that is there.
std::vector<std::uint32_t> look(table& all) {
  std::vector<std::uint32_t> seen;
  all.look_at_all([&](thing& t, std::uint32_t number) {
    require(t.whole == 1, "half a thing");
    seen.push_back(number);
  });
  return seen;
}

bool has(const std::vector<std::uint32_t>& seen, std::uint32_t number) {
  return std::set(seen.begin(), seen.end()).contains(number);
}

}  // namespace

TEST_SUITE("looking") {
  TEST_CASE("looking: a thing comes and goes while somebody looks") {
    holds([] {
      table all;
      together({[&] { const listed one(all); }, [&] { look(all); }});
      require(look(all).empty(), "somebody stayed");
    });
  }

  TEST_CASE("looking: who was there before and is there after is seen") {
    holds([] {
      table all;
      const listed stays(all);
      together({[&] { const listed one(all); },
                [&] { require(has(look(all), stays.number()), "not seen"); }});
    });
  }

  TEST_CASE("looking: two look at the same thing, and it goes") {
    holds([] {
      table all;
      auto one = std::make_unique<listed>(all);
      together({[&] { one.reset(); }, [&] { look(all); }, [&] { look(all); }});
    });
  }

  TEST_CASE("looking: a chunk ends while somebody is in it") {
    holds([] {
      table all;
      auto one = std::make_unique<listed>(all);
      auto two = std::make_unique<listed>(all);
      together({[&] { one.reset(); }, [&] { two.reset(); }, [&] { look(all); }});
      require(all.chunks() == 0, "a chunk stayed");
    });
  }

  TEST_CASE("looking: two make the same chunk") {
    holds([] {
      table all;
      std::array<std::uint32_t, 2> numbers{};
      together(
          {[&] { numbers[0] = listed(all).number(); }, [&] { numbers[1] = listed(all).number(); }});
      require(numbers[0] != numbers[1], "the same number");
      require(all.chunks() == 0, "a chunk stayed");
    });
  }

  TEST_CASE("looking: chunks come and go, and one in the middle is freed") {
    holds(
        [] {
          table all;
          auto one = std::make_unique<listed>(all);
          auto two = std::make_unique<listed>(all);
          const listed stays(all);
          together({[&] {
                      one.reset();
                      two.reset();
                    },
                    [&] {
                      const listed three(all);
                      const listed four(all);
                    },
                    [&] { require(has(look(all), stays.number()), "not seen"); }});
          require(look(all).size() == 1, "somebody stayed");
        },
        {.most = {1, 1}});
  }

  TEST_CASE("looking: a switch misses nobody who comes meanwhile") {
    holds([] {
      table all;
      atomic<bool> wanted{false};
      std::unique_ptr<listed> comes;
      together({[&] {
                  comes = std::make_unique<listed>(all);
                  if (wanted.load(relaxed)) (**comes).watched.store(true, relaxed);
                },
                [&] {
                  wanted.store(true, relaxed);
                  all.look_at_all([](thing& t, std::uint32_t) { t.watched.store(true, relaxed); });
                }});
      require((**comes).watched.load(relaxed), "missed");
    });
  }

  TEST_CASE("looking: two keep a section's times, and somebody looks at them") {
    holds([] {
      turnstile::critical_section cs({.ring_capacity = 1});
      const auto keep = [&] { turnstile::registry::keep_times(cs); };
      together({keep, keep, [&] {
                  require(turnstile::registry::times(cs).hold.count == 0, "nobody held it");
                }});
    });
  }

  TEST_CASE("looking: numbers begin again, and pass over an old chunk") {
    holds(
        [] {
          table all;
          const listed stays(all);
          for (int i = 0; i != 7; ++i) const listed passes(all);
          std::uint32_t again = 0;
          together({[&] { again = listed(all).number(); },
                    [&] { require(has(look(all), stays.number()), "not seen"); }});
          require(again == 11, "in the old one's place");
          require(look(all).size() == 1, "somebody stayed");
        },
        {.most = {1, 1}});
  }
}
