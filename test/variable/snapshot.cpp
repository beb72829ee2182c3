// snapshot.cpp - values that stay what they were.

#include "support/counted.hpp"

#include <turnstile/snapshot.hpp>
#include <turnstile/variable.hpp>

#include <doctest/doctest.h>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using support::counted;

TEST_SUITE("variable") {
  TEST_CASE("snapshot: never changes, whatever is written afterwards") {
    variable<std::vector<int>> v({1, 2});
    const auto before = v.read();
    v.assign({3});
    v.update([](std::vector<int>& list) { list.push_back(4); });
    CHECK(*before == std::vector<int>{1, 2});
    CHECK(before.version() == 0);
    CHECK(*v.read() == std::vector<int>{3, 4});

    variable<int> small(1);
    const auto one = small.read();
    small.assign(2);
    CHECK(*one == 1);
    CHECK(one.version() == 0);
  }

  TEST_CASE("snapshot: outlives the variable") {
    auto v = std::make_unique<variable<std::string>>("a text that is longer than a small string");
    const auto first = v->read();
    v->assign("another");
    auto second = v->read();
    v.reset();
    CHECK(*first == "a text that is longer than a small string");
    CHECK(*second == "another");
    CHECK(second->size() == 7);
  }

  TEST_CASE("snapshot: copies share the value, and the last one frees it") {
    {
      variable<counted> v(counted(1));
      std::optional<snapshot<counted>> a = v.read();
      std::optional<snapshot<counted>> b = a;
      CHECK(&**a == &**b);
      v.assign(counted(2));
      CHECK(counted::alive() == 2);
      a.reset();
      CHECK(counted::alive() == 2);
      CHECK((*b)->value == 1);
      snapshot<counted> c = std::move(*b);
      b.reset();
      CHECK(c->value == 1);
      c = v.read();
      CHECK(c->value == 2);
      CHECK(counted::alive() == 1);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("snapshot: of the same version is the same object") {
    variable<std::vector<int>> v({1});
    const auto a = v.read();
    const auto b = v.read();
    CHECK(&*a == &*b);
    static_assert(std::is_nothrow_copy_constructible_v<snapshot<std::vector<int>>>);
    static_assert(std::is_nothrow_move_assignable_v<snapshot<std::vector<int>>>);
  }
}
