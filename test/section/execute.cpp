// execute.cpp - plain bodies: results, errors, where the body object lives, what awaits.

#include "support/counted.hpp"
#include "support/foreign.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

using namespace turnstile;
using support::counted;
using support::foreign;

namespace {

// Trivially destructible, so that it may be written inside co_await with every compiler.
struct tracked_body {
  explicit tracked_body(int& c, int& m) : copies(&c), moves(&m) {}
  tracked_body(const tracked_body& other) : copies(other.copies), moves(other.moves) { ++*copies; }
  tracked_body(tracked_body&& other) noexcept : copies(other.copies), moves(other.moves) {
    ++*moves;
  }
  int operator()() const { return 5; }

  int* copies;
  int* moves;
};

struct counting_body {
  int operator()() { return ++calls; }
  int calls = 0;
};

struct copied_by_name {
  copied_by_name() = default;
  explicit copied_by_name(const copied_by_name&) = default;
  int operator()() const { return 6; }
};
static_assert(std::is_trivially_copyable_v<copied_by_name>);

template <class R, class Body>
foreign keep(critical_section& cs, Body& body, std::optional<R>& out) {
  out.emplace(co_await cs.execute(body));
}

// Through the queue: the section is busy when the request is made.
template <class R, class Body>
R run_queued(critical_section& cs, Body body) {
  section_guard busy = support::hold(cs);
  std::optional<R> out;
  foreign f = keep(cs, body, out);
  CHECK_FALSE(f.done());
  busy.unlock();
  f.rethrow();
  return std::move(out.value());
}

foreign keep_reference(critical_section& cs, int& target, int*& out) {
  auto body = [&target]() -> int& { return target; };
  int& got = co_await cs.execute(body);
  out = &got;
}

task<int> sum_of_two(critical_section& cs) {
  const int a = co_await cs.execute([] { return 1; });
  const int b = co_await cs.execute([] { return 2; });
  co_return a + b;
}

task<> throw_three_times(critical_section& cs, std::vector<std::string>& heard) {
  for (const char* text : {"one", "two", "three"}) {
    try {
      co_await cs.execute([text] { throw std::runtime_error(text); });
    } catch (const std::runtime_error& e) {
      heard.push_back(e.what());
    }
  }
}

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("execute: a body that returns nothing runs once") {
    critical_section cs;
    int runs = 0;
    sync_wait(cs.execute([&] { ++runs; }));
    CHECK(runs == 1);
    static_assert(std::is_void_v<decltype(sync_wait(cs.execute([] {})))>);
  }

  TEST_CASE("execute: gives the value that the body returns") {
    critical_section cs;
    CHECK(sync_wait(cs.execute([] { return 42; })) == 42);
    CHECK(sync_wait(cs.execute([] { return std::string("text"); })) == "text");
    CHECK(run_queued<std::string>(cs, [] { return std::string("queued"); }) == "queued");
  }

  TEST_CASE("execute: a body's copies may have to be asked for by name") {
    critical_section cs;
    const copied_by_name body;
    CHECK(sync_wait(cs.execute(body)) == 6);
  }

  TEST_CASE("execute: gives a move-only value") {
    critical_section cs;
    auto make = [] { return std::make_unique<int>(7); };
    CHECK(*sync_wait(cs.execute(make)) == 7);
    CHECK(*run_queued<std::unique_ptr<int>>(cs, make) == 7);
  }

  TEST_CASE("execute: gives a reference as a reference") {
    critical_section cs;
    int x = 3;
    int& got = sync_wait(cs.execute([&]() -> int& { return x; }));
    CHECK(&got == &x);
    const int& same = sync_wait(cs.execute([&]() -> const int& { return x; }));
    CHECK(&same == &x);
  }

  // If that were gone already, the address sanitizer would know.
  TEST_CASE("execute: gives a reference to what the body has captured") {
    critical_section cs;
    const auto get = [](critical_section& s, int n) -> task<int> {
      co_return co_await s.execute([n]() -> const int& { return n; });
    };
    CHECK(sync_wait(get(cs, 8)) == 8);
  }

  TEST_CASE("execute: gives a reference as a reference through the queue") {
    critical_section cs;
    int x = 3;
    int* got = nullptr;
    section_guard busy = support::hold(cs);
    const foreign f = keep_reference(cs, x, got);
    busy.unlock();
    CHECK(f.done());
    CHECK(got == &x);
  }

  TEST_CASE("execute: what the body throws reaches its awaiter, and the section stays usable") {
    critical_section cs;
    CHECK_THROWS_WITH_AS(sync_wait(cs.execute([] { throw std::runtime_error("mine"); })), "mine",
                         std::runtime_error);
    auto throwing = []() -> int { throw std::runtime_error("queued"); };
    CHECK_THROWS_WITH_AS(run_queued<int>(cs, throwing), "queued", std::runtime_error);
    CHECK(sync_wait(cs.execute([] { return 1; })) == 1);
  }

  TEST_CASE("execute: something thrown that is no std::exception arrives unchanged") {
    critical_section cs;
    CHECK_THROWS_AS(sync_wait(cs.execute([] { throw 17; })), int);
  }

  TEST_CASE("execute: the error of one queued body reaches nobody else") {
    critical_section cs;
    section_guard busy = support::hold(cs);
    auto good = [] { return 1; };
    auto bad = []() -> int { throw std::runtime_error("bad"); };
    std::optional<int> out[3];
    const foreign first = keep(cs, good, out[0]);
    const foreign second = keep(cs, bad, out[1]);
    const foreign third = keep(cs, good, out[2]);
    support::serve_here([&] { busy.unlock(); });
    CHECK_NOTHROW(first.rethrow());
    CHECK_THROWS_AS(second.rethrow(), std::runtime_error);
    CHECK_NOTHROW(third.rethrow());
    CHECK(out[2].has_value());
  }

  TEST_CASE("execute: an lvalue body is copied") {
    critical_section cs;
    int copies = 0;
    int moves = 0;
    tracked_body body(copies, moves);
    CHECK(sync_wait(cs.execute(body)) == 5);
    CHECK(copies == 1);
    counting_body counting;
    CHECK(sync_wait(cs.execute(counting)) == 1);
    CHECK(counting.calls == 0);
  }

  TEST_CASE("execute: an rvalue body is moved, never copied") {
    critical_section cs;
    int copies = 0;
    int moves = 0;
    CHECK(sync_wait(cs.execute(tracked_body(copies, moves))) == 5);
    CHECK(copies == 0);
    CHECK(moves >= 1);
  }

  TEST_CASE("execute: std::ref refers to the body") {
    critical_section cs;
    counting_body counting;
    CHECK(sync_wait(cs.execute(std::ref(counting))) == 1);
    CHECK(sync_wait(cs.execute(std::ref(counting))) == 2);
    CHECK(counting.calls == 2);
  }

  TEST_CASE("execute: bodies and results are destroyed exactly once") {
    {
      critical_section cs;
      const counted captured(4);
      auto body = [captured] { return counted(captured.value + 1); };
      CHECK(sync_wait(cs.execute(body)).value == 5);
      CHECK(run_queued<counted>(cs, body).value == 5);
      auto never_awaited = cs.execute(body);
      static_cast<void>(never_awaited);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("execute: a body that throws is destroyed exactly once") {
    {
      critical_section cs;
      const counted captured(4);
      auto body = [captured]() -> counted { throw std::runtime_error("no result"); };
      CHECK_THROWS_AS(sync_wait(cs.execute(body)), std::runtime_error);
      CHECK_THROWS_AS(run_queued<counted>(cs, body), std::runtime_error);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("execute: nothing runs and nothing is claimed before it is awaited") {
    critical_section cs;
    int runs = 0;
    {
      auto unused = cs.execute([&] { ++runs; });
      CHECK(cs.try_execute([] {}));
      static_cast<void>(unused);
    }
    CHECK(runs == 0);
    CHECK(cs.statistics().executions == 1);
  }

  TEST_CASE("execute: may be moved until it is awaited") {
    critical_section cs;
    auto first = cs.execute([] { return 9; });
    auto second = std::move(first);
    CHECK(sync_wait(std::move(second)) == 9);
  }

  TEST_CASE("execute: takes a name of its own for the execution") {
    critical_section cs;
    CHECK(sync_wait(cs.execute([] { return 1; }, {.name = "labelled"})) == 1);
  }

  TEST_CASE("execute: one coroutine enters the section again and again") {
    critical_section cs;
    CHECK(sync_wait(sum_of_two(cs)) == 3);
  }

  TEST_CASE("execute: errors can be caught inside the awaiting coroutine") {
    critical_section cs;
    std::vector<std::string> heard;
    sync_wait(throw_three_times(cs, heard));
    CHECK(heard == std::vector<std::string>{"one", "two", "three"});
  }

  TEST_CASE("execute: a body sees what earlier bodies wrote, and the awaiter what its body wrote") {
    critical_section cs;
    std::vector<int> shared;
    for (int i = 0; i != 10; ++i) sync_wait(cs.execute([&shared, i] { shared.push_back(i); }));
    CHECK(shared.size() == 10);
    CHECK(sync_wait(cs.execute([&] { return shared.back(); })) == 9);
  }
}
