// per_replica.cpp - values of their own, combined when they are read.

#include <turnstile/critical_section.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/per_replica.hpp>

#include <chrono>
#include <doctest/doctest.h>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using namespace turnstile;

TEST_SUITE("variable") {
  TEST_CASE("per_replica: is combined on read, as was asked") {
    const auto filled = [](aggregation how) {
      per_replica<long> p(3, 0, how);
      p.assign(0, 2);
      p.assign_add(1, 3);
      p.assign_add(1, 4);
      p.assign(2, -3);
      return p.read();
    };
    CHECK(filled(aggregation::sum) == 6);
    CHECK(filled(aggregation::mean) == 2);
    CHECK(filled(aggregation::first_replica) == 2);
    CHECK_THROWS_AS(filled(aggregation::none), std::logic_error);
  }

  TEST_CASE("per_replica: each replica begins with the initial value and has its own versions") {
    per_replica<double> p(2, 1.5, aggregation::sum);
    CHECK(p.read() == 3.0);
    CHECK(p.assign_add(0, 1).version() == 1);
    CHECK(*p.assign_add(0, 1) == 3.5);
    CHECK(p.assign(1, 0).version() == 1);
    CHECK(p.read() == 3.5);
  }

  TEST_CASE("per_replica: the mean of numbers keeps signs and large values") {
    per_replica<signed char> small(2, -3, aggregation::mean);
    CHECK(small.read() == -3);
    CHECK(per_replica<unsigned char>(3, 200, aggregation::mean).read() == 200);
    CHECK(per_replica<signed char>(2, 100, aggregation::mean).read() == 100);
    CHECK(per_replica<long>(3, std::numeric_limits<long>::min(), aggregation::mean).read() ==
          std::numeric_limits<long>::min());
    CHECK(per_replica<unsigned long>(2, ~0UL, aggregation::mean).read() == ~0UL);
    per_replica<unsigned long> large(2, ~0UL / 2, aggregation::mean);
    CHECK(large.read() == (~0UL - 1) / 2);
    per_replica<double> d(2, 0.0, aggregation::mean);
    d.assign(1, 1);
    CHECK(d.read() == 0.5);
    using std::chrono::nanoseconds;
    per_replica<nanoseconds> times(2, nanoseconds(-10), aggregation::mean);
    CHECK(times.read() == nanoseconds(-10));
  }

  TEST_CASE("per_replica: what is wrong with its arguments is said") {
    CHECK_THROWS_AS(per_replica<int>(0, 1, aggregation::sum), std::invalid_argument);
    CHECK_THROWS_AS(per_replica<std::string>(2, "", aggregation::mean), std::invalid_argument);
    CHECK_THROWS_AS(per_replica<std::vector<int>>(2, {}, aggregation::sum), std::invalid_argument);
    per_replica<std::string> text(2, "a", aggregation::sum);
    CHECK(text.read() == "aa");
    CHECK_THROWS_AS(text.assign(2, "b"), std::out_of_range);
    per_replica<std::vector<int>> first(2, {1}, aggregation::first_replica);
    first.assign(1, {2});
    CHECK(first.read() == std::vector<int>{1});
  }

  TEST_CASE("per_replica: each replica is claimed by who writes it, and all of them by who reads") {
    critical_section a, b;
    per_replica<long> p(3, 1, aggregation::sum);
    const auto in = [](critical_section& cs, auto f) { CHECK(cs.try_execute(f)); };
    in(a, [&] { p.assign_add(0, 1); });
    in(b, [&] {
      p.assign(1, 5);
      CHECK_THROWS_AS(p.assign(0, 7), exclusive_access_error);
      CHECK_THROWS_AS(p.assign_add(0, 7), exclusive_access_error);
      CHECK_THROWS_AS(p.read(), exclusive_access_error);
    });
    in(a, [&] {
      CHECK_THROWS_AS(p.assign(1, 7), exclusive_access_error);
      p.assign(0, 2);
    });
    CHECK(p.read() == 2 + 5 + 1);  // outside every section
    per_replica<long> q(2, 1, aggregation::mean);
    in(a, [&] { CHECK(q.read() == 1); });
    in(b, [&] {
      CHECK_THROWS_AS(q.assign(0, 7), exclusive_access_error);
      CHECK_THROWS_AS(q.assign(1, 7), exclusive_access_error);
    });
    CHECK(q.read() == 1);
  }

  TEST_CASE(
      "per_replica: of the first replica alone, a read claims that one, of none it claims none") {
    critical_section a, b;
    per_replica<int> first(2, 1, aggregation::first_replica);
    CHECK(a.try_execute([&] { CHECK(first.read() == 1); }));
    CHECK(b.try_execute([&] {
      first.assign(1, 2);
      CHECK_THROWS_AS(first.read(), exclusive_access_error);
    }));
    per_replica<int> apart(1, 1, aggregation::none);
    CHECK(a.try_execute([&] { CHECK_THROWS_AS(apart.read(), std::logic_error); }));
    CHECK(b.try_execute([&] { apart.assign(0, 2); }));
  }
}
