// ticket_word.cpp - the packed word by itself.

#include <turnstile/detail/ticket_word.hpp>

#include <cstdint>
#include <doctest/doctest.h>

using turnstile::detail::arrival;
using turnstile::detail::ticket_word;

namespace {

constexpr std::uint64_t tickets = std::uint64_t{1} << 38;

}  // namespace

TEST_SUITE("ring") {
  TEST_CASE("before: orders tickets, also across the end of their 37 bits") {
    CHECK(ticket_word::before(0, 1));
    CHECK_FALSE(ticket_word::before(1, 0));
    CHECK_FALSE(ticket_word::before(7, 7));
    CHECK(ticket_word::before(5, 5 + (1u << 25)));
    CHECK(ticket_word::before(tickets - 1, 0));
    CHECK_FALSE(ticket_word::before(0, tickets - 1));
    CHECK(ticket_word::before(tickets - 3, 2));
    CHECK_FALSE(ticket_word::before(2, tickets - 3));
  }

  TEST_CASE("arrive: hands out the tickets one by one, refused ones included") {
    ticket_word word;
    ticket_word::place p;
    for (std::uint64_t t = 0; t != 5; ++t) {
      REQUIRE(word.arrive(p) == (t == 0 ? arrival::owner : arrival::queued));
      CHECK(ticket_word::ticket_of(p) == t);
    }
    REQUIRE(word.close(p) == arrival::queued);
    CHECK(ticket_word::ticket_of(p) == 5);
    REQUIRE(word.arrive(p) == arrival::closed);
    CHECK(word.pending() == 6);
  }

  TEST_CASE("try_arrive: takes no ticket when it does not get the section") {
    ticket_word word;
    ticket_word::place first;
    ticket_word::place p;
    REQUIRE(word.try_arrive(first) == arrival::owner);
    REQUIRE(word.try_arrive(p) == arrival::queued);
    REQUIRE(word.arrive(p) == arrival::queued);
    CHECK(ticket_word::ticket_of(p) == ticket_word::ticket_of(first) + 1);
  }

  TEST_CASE("leave: touches the private side only if somebody else is pending") {
    ticket_word word;
    ticket_word::place p;
    ticket_word::private_side mine{77, 88, 99};
    REQUIRE(word.arrive(p) == arrival::owner);
    REQUIRE(word.leave(p, mine));
    CHECK(mine.head == 77);
    CHECK(mine.unaccounted == 88);
    CHECK(mine.known == 99);

    ticket_word::place second;
    REQUIRE(word.arrive(p) == arrival::owner);
    REQUIRE(word.arrive(second) == arrival::queued);
    REQUIRE_FALSE(word.leave(p, mine));
    CHECK(mine.head == ticket_word::ticket_of(second));
    CHECK(mine.unaccounted == 0);
    CHECK(mine.known == 1);
  }

  TEST_CASE("settle: looks at the word only when all that was known is finished") {
    ticket_word word;
    ticket_word::place first;
    ticket_word::place p;
    ticket_word::private_side mine;
    REQUIRE(word.arrive(first) == arrival::owner);
    for (int i = 0; i != 3; ++i) REQUIRE(word.arrive(p) == arrival::queued);
    REQUIRE_FALSE(word.leave(first, mine));
    for (int i = 0; i != 2; ++i) {
      ticket_word::finish(mine);
      REQUIRE_FALSE(word.settle(mine));
      CHECK(word.pending() == 3);
    }
    REQUIRE(word.arrive(p) == arrival::queued);
    ticket_word::finish(mine);
    REQUIRE_FALSE(word.settle(mine));
    CHECK(word.pending() == 1);
    ticket_word::finish(mine);
    REQUIRE(word.settle(mine));
    CHECK(word.pending() == 0);
  }
}
