// touches.cpp - every member that reads or writes a variable claims it first.

#include <turnstile/turnstile.hpp>

#include <array>
#include <cstddef>
#include <doctest/doctest.h>
#include <string>

using namespace turnstile;

namespace {

// In a block of its own.
struct large {
  explicit large(long n) { all.fill(n); }
  large& operator+=(const large& other) {
    for (std::size_t i = 0; i != all.size(); ++i) all[i] += other.all[i];
    return *this;
  }
  large& operator-=(const large& other) {
    for (std::size_t i = 0; i != all.size(); ++i) all[i] -= other.all[i];
    return *this;
  }
  bool operator==(const large&) const = default;

  std::array<long, 16> all{};
};

// Of the functions given to members.
struct calls {
  int made = 0;
};

// f(name, whether it writes, how it is called), for each member. All that write leave a 9 where
// there was a 2.
template <class T, class F>
void for_each_member(F f) {
  using v = variable<T>;
  f("read", false, [](v& x, calls&) { return *x.read(); });
  f("assign", true, [](v& x, calls&) { return *x.assign(T(9)); });
  f("assign_add", true, [](v& x, calls&) { return *x.assign_add(T(7)); });
  f("assign_sub", true, [](v& x, calls&) { return *x.assign_sub(T(-7)); });
  f("update", true, [](v& x, calls& c) {
    return *x.update([&c](T& value) {
      ++c.made;
      value = T(9);
    });
  });
  f("compare_assign", true, [](v& x, calls&) { return **x.compare_assign(1, T(9)); });
  f("with_read_lock", false, [](v& x, calls& c) {
    return x.with_read_lock([&c](const T& value) {
      ++c.made;
      return value;
    });
  });
}

template <class F>
void run_in(critical_section& cs, F f) {
  REQUIRE(cs.try_execute(f));
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE_TEMPLATE("touches: no member reads or writes what another section has claimed", T, long,
                     large) {
    for_each_member<T>([](const std::string& name, bool, auto member) {
      CAPTURE(name);
      critical_section a, b;
      variable<T> v(T(1));
      calls count;
      run_in(a, [&] { v.assign(T(2)); });
      CHECK_THROWS_AS(run_in(b, [&] { member(v, count); }), exclusive_access_error);
      CHECK(count.made == 0);
      CHECK(v.version() == 1);
      CHECK(*v.read() == T(2));
    });
  }

  TEST_CASE_TEMPLATE("touches: every member claims, and does its work for who has claimed", T, long,
                     large) {
    for_each_member<T>([](const std::string& name, bool writes, auto member) {
      CAPTURE(name);
      critical_section a, b;
      variable<T> v(T(1));
      calls count;
      v.assign(T(2));  // outside every section: claims nothing
      const auto body = [&] { CHECK(member(v, count) == (writes ? T(9) : T(2))); };
      run_in(a, body);
      CHECK_THROWS_AS(run_in(b, body), exclusive_access_error);
      CHECK(v.version() == (writes ? 2 : 1));
    });
  }

  TEST_CASE("touches: what neither reads nor writes claims nothing") {
    critical_section a, b;
    variable<large> v(large(1), "v");
    const snapshot<large> now = v.read();
    for (critical_section* cs : {&a, &b}) {
      run_in(*cs, [&] {
        CHECK(v.version() == 0);
        CHECK(v.copies() == 0);
        CHECK(v.name() == "v");
        CHECK(*now == large(1));
      });
    }
    run_in(b, [&] { v.assign(large(2)); });
    CHECK_THROWS_AS(run_in(a, [&] { v.read(); }), exclusive_access_error);
  }
}
