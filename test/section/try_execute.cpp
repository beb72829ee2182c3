// try_execute.cpp - now or not at all.

#include "support/hold.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <type_traits>

using namespace turnstile;

TEST_SUITE("section") {
  TEST_CASE("try_execute: gives an optional, a pointer or a bool") {
    critical_section cs;
    int x = 1;
    static_assert(std::is_same_v<decltype(cs.try_execute([] { return 1; })), std::optional<int>>);
    static_assert(std::is_same_v<decltype(cs.try_execute([&]() -> int& { return x; })), int*>);
    static_assert(std::is_same_v<decltype(cs.try_execute([] {})), bool>);
    CHECK(cs.try_execute([] { return 4; }) == 4);
    CHECK(cs.try_execute([&]() -> int& { return x; }) == &x);
    CHECK(cs.try_execute([&] { x = 2; }));
    CHECK(x == 2);
    CHECK(*cs.try_execute([] { return std::make_unique<int>(6); }).value() == 6);
  }

  TEST_CASE("try_execute: is empty when the section is not idle, and the body does not run") {
    critical_section cs;
    bool ran = false;
    const section_guard busy = support::hold(cs);
    CHECK_FALSE(cs.try_execute([&] { ran = true; }));
    CHECK_FALSE(cs.try_execute([&] { return ran = true; }).has_value());
    CHECK(cs.try_execute([&]() -> bool& { return ran = true; }) == nullptr);
    CHECK_FALSE(ran);
  }

  TEST_CASE("try_execute: runs the body on the calling thread") {
    critical_section cs;
    CHECK(cs.try_execute([] { return std::this_thread::get_id(); }) == std::this_thread::get_id());
  }

  TEST_CASE(
      "try_execute: an lvalue is copied, also one that is const; an rvalue and std::ref are not") {
    critical_section cs;
    synchronized<int> value{0};
    auto count = [calls = 0]() mutable { return ++calls; };
    auto count_with = [calls = 0](int&) mutable { return ++calls; };
    const auto unchanging = count;
    CHECK(cs.try_execute(count) == 1);
    CHECK(cs.try_execute(count) == 1);
    CHECK(cs.try_execute(unchanging) == 1);
    CHECK(value.try_execute(count_with) == 1);
    CHECK(value.try_execute(count_with) == 1);
    CHECK(cs.try_execute(std::ref(count)) == 1);
    CHECK(cs.try_execute(std::ref(count)) == 2);
    CHECK(value.try_execute(std::ref(count_with)) == 1);
    CHECK(value.try_execute(std::ref(count_with)) == 2);
    CHECK(cs.try_execute([only = std::make_unique<int>(3)] { return *only; }) == 3);
    CHECK(value.try_execute([only = std::make_unique<int>(3)](int&) { return *only; }) == 3);
  }

  TEST_CASE("try_execute: throws what the body throws, and leaves the section usable") {
    critical_section cs;
    CHECK_THROWS_AS(cs.try_execute([]() -> int { throw std::runtime_error("x"); }),
                    std::runtime_error);
    CHECK(cs.try_execute([] {}));
    CHECK(cs.statistics().executions == 2);
  }

  TEST_CASE("try_execute and try_lock: are empty inside the section") {
    critical_section cs;
    sync_wait(cs.execute([&] {
      CHECK_FALSE(cs.try_execute([] {}));
      CHECK_FALSE(cs.try_lock().has_value());
    }));
    CHECK(cs.try_execute([&] { CHECK_FALSE(cs.try_execute([] {})); }));
  }

  TEST_CASE("try_execute and try_lock: throw section_closed after close") {
    critical_section cs;
    sync_wait(cs.close());
    CHECK_THROWS_AS(cs.try_execute([] {}), section_closed);
    CHECK_THROWS_AS(cs.try_lock(), section_closed);
  }

  TEST_CASE(
      "try_execute and try_lock: elsewhere than its executor empty, and after close they say so") {
    manual_executor lane;
    critical_section cs{section_options{.executor = lane}};
    CHECK_FALSE(cs.try_execute([] {}));
    CHECK_FALSE(cs.try_lock().has_value());
    async_scope scope{{.executor = lane}};
    scope.spawn([](critical_section& c) -> task<> { co_await c.close(); }(cs));
    lane.run();
    sync_wait(scope.join());
    CHECK_THROWS_AS(cs.try_execute([] {}), section_closed);
    CHECK_THROWS_AS(cs.try_lock(), section_closed);
  }
}
