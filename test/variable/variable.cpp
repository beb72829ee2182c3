// variable.cpp - what reads and writes of a variable give, and what they copy.

#include "support/counted.hpp"

#include <turnstile/sync_wait.hpp>
#include <turnstile/variable.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <doctest/doctest.h>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

using namespace turnstile;
using support::counted;

namespace {

// Neither has an operator that the other one has.
struct only_plus {
  std::string text;
  friend only_plus operator+(only_plus a, const only_plus& b) {
    a.text += b.text;
    return a;
  }
};
struct only_minus_equals {
  std::array<int, 100> all{};
  only_minus_equals& operator-=(int n) {
    for (int& x : all) x -= n;
    return *this;
  }
};

struct two_words {
  std::uint32_t a;
  std::uint32_t b;
  bool operator==(const two_words&) const = default;
};

template <class V>
concept has_compound = requires(V& v) { v += 1; } || requires(V& v) { v -= 1; } || requires(V& v) {
  v *= 1;
} || requires(V& v) { v |= 1; } || requires(V& v) { v <<= 1; };

constexpr std::size_t mebibyte = std::size_t{1} << 20;

}  // namespace

TEST_SUITE("variable") {
  TEST_CASE_TEMPLATE("variable: each write gives what it wrote, and adds one to the version", T,
                     long, std::vector<int>, std::string, std::array<int, 256>) {
    T first{};
    T second{};
    if constexpr (requires { second.resize(3); }) {
      second.resize(3);
    } else if constexpr (requires { second[0]; }) {
      second[0] = 7;
    } else {
      second = 7;
    }
    variable<T> v(first, "name");
    CHECK(v.name() == "name");
    CHECK(v.version() == 0);
    CHECK(v.read().version() == 0);
    CHECK(*v.read() == first);

    const auto assigned = v.assign(second);
    CHECK(*assigned == second);
    CHECK(assigned.version() == 1);
    CHECK(v.version() == 1);

    const auto updated = v.update([&](T& t) { t = first; });
    CHECK(*updated == first);
    CHECK(updated.version() == 2);
    CHECK(*assigned == second);
    CHECK(v.version() == 2);
    CHECK(v.read().version() == 2);
    static_assert(!std::is_copy_constructible_v<variable<T>>);
    static_assert(!std::is_move_constructible_v<variable<T>>);
  }

  TEST_CASE("assign_add and assign_sub: give the value they wrote") {
    variable<long> v(10);
    CHECK(*v.assign_add(5) == 15);
    CHECK(*v.assign_sub(3) == 12);
    CHECK(*v.assign_add(0.5) == 12);
    CHECK(v.version() == 3);
    CHECK(v.copies() == 0);
    variable<double> d(1);
    CHECK(*d.assign_add(0.5) == 1.5);
  }

  TEST_CASE("assign_add: uses += if there is one, else +") {
    variable<std::string> text("a");
    CHECK(*text.assign_add("b") == "ab");
    CHECK(*text.assign_add('c') == "abc");
    variable<only_plus> plus(only_plus{"a"});
    CHECK(plus.assign_add(only_plus{"b"})->text == "ab");
    variable<only_minus_equals> minus(only_minus_equals{});
    CHECK(minus.assign_sub(2)->all[99] == -2);
  }

  TEST_CASE("compare_assign: writes only if the version is that one") {
    const auto check = [](auto one, auto other) {
      variable<decltype(one)> v(one);
      CHECK_FALSE(v.compare_assign(1, other).has_value());
      const auto wrote = v.compare_assign(0, other);
      REQUIRE(wrote.has_value());
      CHECK(**wrote == other);
      CHECK(wrote->version() == 1);
      CHECK_FALSE(v.compare_assign(0, one).has_value());
      CHECK(*v.read() == other);
      CHECK(v.version() == 1);
    };
    check(1, 2);
    check(two_words{1, 2}, two_words{3, 4});
    check(std::string("one"), std::string("other"));
  }

  TEST_CASE("a small value: is whole, and has no block") {
    variable<two_words> v(two_words{1, 2});
    CHECK(*v.update([](two_words& w) { w = {w.b, w.a}; }) == two_words{2, 1});
    CHECK(*v.read() == two_words{2, 1});
    variable<bool> flag(false);
    CHECK(*flag.assign(true));
    enum class colour : unsigned char { red, green };
    variable<colour> c(colour::red);
    CHECK(*c.assign(colour::green) == colour::green);
    variable<const char*> text("a");
    CHECK(**text.read() == 'a');
    const auto held = v.read();
    v.assign({});
    CHECK(v.copies() == 0);
    CHECK(*held == two_words{2, 1});
  }

  TEST_CASE("update: of a small value writes nothing if the function throws") {
    variable<int> v(1);
    CHECK_THROWS_AS(v.update([](int& n) {
      n = 2;
      throw std::runtime_error("as planned");
    }),
                    std::runtime_error);
    CHECK(*v.read() == 1);
    CHECK(v.version() == 0);
  }

  TEST_CASE("update: writes nothing if the function throws and somebody holds a snapshot") {
    variable<counted> v(counted(1));
    {
      const auto held = v.read();
      CHECK_THROWS_AS(v.update([](counted& c) {
        c.value = 2;
        throw std::runtime_error("as planned");
      }),
                      std::runtime_error);
      CHECK(v.read()->value == 1);
      CHECK(v.version() == 0);
    }
    CHECK(counted::alive() == 1);
    CHECK(v.update([](counted& c) { c.value = 3; })->value == 3);
  }

  TEST_CASE(
      "update: a function that throws in place leaves what it has done, as a version of its own") {
    variable<std::vector<int>> v({1});
    CHECK_THROWS_AS(v.update([](std::vector<int>& list) {
      list.push_back(2);
      throw std::runtime_error("as planned");
    }),
                    std::runtime_error);
    CHECK(*v.read() == std::vector<int>{1, 2});
    CHECK(v.version() == 1);
    CHECK(v.copies() == 0);
    CHECK(v.update([](std::vector<int>& list) { list.pop_back(); }).version() == 2);
    CHECK(v.copies() == 0);
  }

  TEST_CASE("copies: a value is copied only while somebody holds a snapshot of it") {
    variable<std::vector<int>> v(std::vector<int>(100));
    for (int i = 0; i != 10; ++i) v.update([](std::vector<int>& list) { ++list[0]; });
    CHECK(v.copies() == 0);
    {
      const auto held = v.read();
      v.update([](std::vector<int>& list) { ++list[0]; });
      CHECK(v.copies() == 1);
      // The copy is nobody else's.
      v.update([](std::vector<int>& list) { ++list[0]; });
      CHECK(v.copies() == 1);
      v.assign(std::vector<int>(3));
      CHECK(v.copies() == 1);
      CHECK(held->at(0) == 10);
    }
    auto again = v.read();
    auto other = again;
    again = v.assign({1});
    v.update([](std::vector<int>& list) { ++list[0]; });
    CHECK(v.copies() == 2);
    again = other;
    v.update([](std::vector<int>& list) { ++list[0]; });
    CHECK(v.copies() == 2);
    CHECK(*v.read() == std::vector<int>{3});
  }

  TEST_CASE("copies: the snapshot that a write gave counts like any other") {
    variable<std::vector<int>> v({1});
    const auto written = v.update([](std::vector<int>& list) { list.push_back(2); });
    CHECK(v.copies() == 0);
    v.update([](std::vector<int>& list) { list.push_back(3); });
    CHECK(v.copies() == 1);
    CHECK(*written == std::vector<int>{1, 2});
  }

  TEST_CASE("an update of 64 MiB that nobody holds copies nothing and stays where it is") {
    variable<std::vector<std::byte>> v(std::vector<std::byte>(64 * mebibyte));
    const std::byte* const where = v.read()->data();
    for (int i = 0; i != 5; ++i) {
      v.update([](std::vector<std::byte>& all) { all[mebibyte] = std::byte{1}; });
      v.read();
    }
    CHECK(v.copies() == 0);
    CHECK(v.read()->data() == where);
    CHECK((*v.read())[mebibyte] == std::byte{1});
    const auto held = v.read();
    v.update([](std::vector<std::byte>& all) { all[mebibyte] = std::byte{2}; });
    CHECK(v.copies() == 1);
    CHECK((*held)[mebibyte] == std::byte{1});
    CHECK((*v.read())[mebibyte] == std::byte{2});
  }

  TEST_CASE("with_read_lock: sees the value itself, without a copy, and gives back the result") {
    variable<counted> v(counted(5));
    const counted* const there = &*v.read();
    const int got = v.with_read_lock([&](const counted& c) {
      CHECK(&c == there);
      return c.value + 1;
    });
    CHECK(got == 6);
    CHECK(counted::alive() == 1);
    CHECK(v.copies() == 0);
    // It may write: what it sees does not change.
    v.with_read_lock([&](const counted& c) {
      v.update([](counted& now) { now.value = 9; });
      CHECK(c.value == 5);
    });
    CHECK(v.copies() == 1);
    v.update([](counted& now) { now.value = 10; });
    CHECK(v.copies() == 1);
    CHECK(variable<int>(3).with_read_lock([](const int& n) { return n; }) == 3);
  }

  TEST_CASE("with_read_lock: a member that is given as the function is copied") {
    struct entry {
      std::string host;
      int port;
    };
    variable<entry> v({"before", 80});
    auto&& host = v.with_read_lock(&entry::host);
    v.update([](entry& e) { e.host = "after!"; });
    CHECK(host == "before");
    struct point {
      int x, y;
    };
    const variable<point> small({3, 4});
    static_assert(std::is_same_v<decltype(small.with_read_lock(&point::y)), int>);
    CHECK(small.with_read_lock(&point::y) == 4);
    struct never_moved {
      explicit never_moved(int v) : value(v) {}
      never_moved(const never_moved&) = default;
      never_moved(never_moved&&) = delete;
      int value;
    };
    struct around {
      never_moved inner;
    };
    const variable<around> copied(around{never_moved(5)});
    CHECK(copied.with_read_lock(&around::inner).value == 5);
    // Of anything else the caller says what it gives.
    static const int outside = 5;
    const auto refers = [](const entry&) -> const int& { return outside; };
    CHECK(&v.with_read_lock(refers) == &outside);
  }

  TEST_CASE("read: does not wait for a writer that copies the value or replaces it") {
    variable<std::vector<int>> v({1});
    const auto held = v.read();
    std::latch inside(1);
    std::latch go_on(1);
    std::jthread writer([&] {
      v.update([&](std::vector<int>& list) {
        list[0] = 2;
        inside.count_down();
        go_on.wait();
      });
    });
    inside.wait();
    for (int i = 0; i != 100; ++i) CHECK(*v.read() == std::vector<int>{1});
    CHECK(v.version() == 0);
    v.with_read_lock([](const std::vector<int>& list) { CHECK(list[0] == 1); });
    go_on.count_down();
    writer.join();
    CHECK(*v.read() == std::vector<int>{2});
  }

  TEST_CASE("read: waits for a change in place that has begun, and sees it whole") {
    variable<std::vector<int>> v({1});
    std::latch inside(1);
    std::atomic<bool> ending{false};
    std::jthread writer([&] {
      v.update([&](std::vector<int>& list) {
        list[0] = 2;
        inside.count_down();
        list.push_back(3);
        ending = true;
      });
    });
    inside.wait();
    const auto got = v.read();
    CHECK(ending);
    CHECK(*got == std::vector<int>{2, 3});
    CHECK(v.copies() == 0);
  }

  TEST_CASE("a large variable used by the function that changes it: an error, not a hang") {
    variable<std::vector<int>> v({1});
    variable<std::vector<int>> other({2});
    const auto use = [&](auto again) {
      CHECK_THROWS_AS(v.update([&](std::vector<int>&) { again(); }), std::logic_error);
    };
    use([&] { v.read(); });
    use([&] { v.assign({3}); });
    use([&] { v.with_read_lock([](const std::vector<int>&) {}); });
    use([&] { other.update([&](std::vector<int>&) { v.read(); }); });
    const auto held = v.read();
    use([&] { v.update([](std::vector<int>&) {}); });
    v.update(
        [&](std::vector<int>& list) { list = *v.read(); });  // a copy is changed: reading is fine
    v.update([&](std::vector<int>& list) { list[0] += other.read()->front(); });
    CHECK(*v.read() == std::vector<int>{3});
  }

  TEST_CASE("a small variable written by the function that changes it: an error, not without end") {
    variable<int> v(1);
    variable<int> other(5);
    const auto use = [&](auto again) {
      CHECK_THROWS_AS(v.update([&](int&) { again(); }), std::logic_error);
    };
    use([&] { v.assign(3); });
    use([&] { v.assign_add(1); });
    use([&] { v.update([](int&) {}); });
    use([&] { v.compare_assign(0, 4); });
    use([&] { other.update([&](int&) { v.assign(3); }); });
    CHECK(v.version() == 0);
    CHECK(other.version() == 0);
    CHECK(*v.update([&](int& n) { n = *v.read() + *other.update([](int& m) { ++m; }); }) == 7);
    CHECK(*v.assign(8) == 8);
  }

  TEST_CASE("a variable: has no compound operators") {
    static_assert(!has_compound<variable<int>>);
    static_assert(has_compound<int>);
    static_assert(!std::is_assignable_v<variable<int>&, int>);
    variable deduced(1.5);
    static_assert(std::is_same_v<decltype(deduced), variable<double>>);
    CHECK(*deduced.read() == 1.5);
  }
}
