// variable.cpp - snapshots: who takes a block, who writes it in place, who replaces and who frees
// it.
//
// Values are two guarded fields, each the number of writes so far: in every execution a snapshot is
// whole and fits its version, nobody writes what somebody can read, and every block is freed once.
// Here the count of takes moves to the block with the fourth.

#include "schedule/scenario.hpp"

#include <turnstile/variable.hpp>

#include <cstdint>
#include <memory>
#include <optional>

using namespace schedule;
using namespace turnstile;

namespace {

struct writes {
  guarded<int> a{0};
  guarded<int> b{0};

  writes& operator+=(int n) {
    a = a + n;
    b = b + n;
    return *this;
  }
};

int looked_at(const snapshot<writes>& s) {
  const int n = s->a;
  require(n == s->b, "a torn value");
  require(s.version() == static_cast<std::uint64_t>(n), "a value with another one's version");
  return n;
}

using held = std::optional<snapshot<writes>>;

}  // namespace

TEST_SUITE("variable") {
  TEST_CASE("variable: one reads while two write") {
    holds([] {
      variable<writes> v(writes{});
      const auto write = [&] { looked_at(v.assign_add(1)); };
      together({write, write, [&] {
                  const int first = looked_at(v.read());
                  require(looked_at(v.read()) >= first, "back to an older value");
                }});
      require(looked_at(v.read()) == 2, "a write was lost");
    });
  }

  TEST_CASE("variable: two read while one writes in place") {
    holds([] {
      variable<writes> v(writes{});
      const auto read = [&] { looked_at(v.read()); };
      together({read, read, [&] { v.assign_add(1); }});
      require(looked_at(v.read()) == 1, "a write was lost");
    });
  }

  TEST_CASE(
      "variable: one waits for a change while another reader comes and goes, and a second change "
      "is given up") {
    holds(
        [] {
          variable<writes> v(writes{});
          const auto write = [&] { looked_at(v.assign_add(1)); };
          const auto read = [&] { looked_at(v.read()); };
          together({write, write, read, read});
          require(looked_at(v.read()) == 2, "a write was lost");
        },
        {.most = {3, 0}});
  }

  TEST_CASE("variable: one writes twice and one reads twice") {
    holds([] {
      variable<writes> v(writes{});
      const auto read = [&] { return looked_at(v.read()); };
      together({[&] {
                  const int first = read();
                  require(read() >= first, "back to an older value");
                },
                [&] {
                  v.assign_add(1);
                  v.assign_add(1);
                }});
      require(v.copies() <= 2, "more copies than writes");
    });
  }

  TEST_CASE("variable: what two writes give are different values") {
    holds([] {
      variable<writes> v(writes{});
      guarded<int> first{0};
      guarded<int> second{0};
      together({[&] { first = looked_at(v.assign_add(1)); },
                [&] { second = looked_at(v.assign_add(1)); }});
      require(first + second == 3, "the same value twice");
    });
  }

  TEST_CASE("variable: the only snapshot is dropped while one writes") {
    holds([] {
      variable<writes> v(writes{});
      held mine = v.read();
      together({[&] {
                  looked_at(*mine);
                  mine.reset();
                },
                [&] { v.assign_add(1); }});
      require(v.copies() <= 1, "two copies for one write");
      v.assign_add(1);
      require(v.copies() <= 1, "a copy of what nobody holds");
    });
  }

  TEST_CASE("variable: two copies of a snapshot are dropped while one replaces the value") {
    holds([] {
      variable<writes> v(writes{});
      held mine = v.read();
      held yours = mine;
      const auto drop = [](held& h) {
        looked_at(*h);
        h.reset();
      };
      together({[&] { drop(mine); }, [&] { drop(yours); },
                [&] {
                  writes one;
                  one += 1;
                  v.assign(one);
                }});
    });
  }

  TEST_CASE("variable: a snapshot is copied and dropped while one writes") {
    holds([] {
      variable<writes> v(writes{});
      together({[&] {
                  held mine = v.read();
                  held copy = mine;
                  mine.reset();
                  looked_at(*copy);
                },
                [&] { v.assign_add(1); }});
    });
  }

  TEST_CASE("variable: a snapshot ends on another thread than its variable") {
    holds([] {
      auto v = std::make_unique<variable<writes>>(writes{});
      held mine = v->read();
      together({[&] {
                  looked_at(*mine);
                  mine.reset();
                },
                [&] { v.reset(); }});
    });
  }

  TEST_CASE("variable: the count of takes moves to the block while one writes") {
    holds([] {
      variable<writes> v(writes{});
      held mine[2] = {v.read(), v.read()};
      together({[&] {
                  looked_at(v.read());
                  looked_at(v.read());
                },
                [&] {
                  mine[0].reset();
                  mine[1].reset();
                  v.assign_add(1);
                }});
      looked_at(v.read());
    });
  }

  TEST_CASE(
      "variable: the count of takes has moved to the block, which is held, while one writes") {
    holds([] {
      variable<writes> v(writes{});
      together({[&] {
                  const auto first = v.read();
                  const auto second = v.read();
                  const auto third = v.read();
                  const auto fourth = v.read();
                  require(looked_at(first) <= looked_at(second), "older");
                  require(looked_at(third) <= looked_at(fourth), "older");
                },
                [&] { v.assign_add(1); }});
    });
  }

  TEST_CASE("variable: two move the count of takes to the block, and hold it, while one writes") {
    holds([] {
      variable<writes> v(writes{});
      v.read();
      v.read();
      const auto read = [&] { looked_at(v.read()); };
      together({read, read, [&] { v.assign_add(1); }});
      looked_at(v.read());
    });
  }

  TEST_CASE("variable: the version and the value that are read do not contradict each other") {
    holds([] {
      variable<writes> v(writes{});
      together({[&] { v.assign_add(1); },
                [&] {
                  const std::uint64_t version = v.version();
                  const auto now = v.read();
                  require(now.version() >= version, "an older value than its version said");
                  require(v.version() >= now.version(), "an older version than the value's");
                },
                [&] { v.assign(writes{}); }});
    });
  }

  TEST_CASE("variable: of two that compare and assign one wins") {
    holds([] {
      variable<writes> v(writes{});
      guarded<bool> first{false};
      guarded<bool> second{false};
      writes one;
      one += 1;
      together({[&] { first = v.compare_assign(0, one).has_value(); },
                [&] { second = v.compare_assign(0, one).has_value(); }});
      require(first != second, "none or both");
      require(looked_at(v.read()) == 1, "not what was assigned");
    });
  }
}
