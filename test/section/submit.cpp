// submit.cpp - submit, post, and the handle on what was submitted.

#include "support/child_process.hpp"
#include "support/counted.hpp"
#include "support/dies.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"
#include "support/loop.hpp"
#include "support/unobserved.hpp"

#include <turnstile/turnstile.hpp>

#include <cstdio>
#include <cstdlib>
#include <doctest/doctest.h>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

using namespace turnstile;
using support::counted;
using support::foreign;
using support::gate;
using support::loop;
using support::unobserved;

namespace {

foreign wait_for(execution_handle<int>& h, std::optional<int>& out) { out = co_await h; }

section_options on(loop& l) { return {.name = "on a loop", .executor = l}; }

}  // namespace

TEST_SUITE("section") {
  TEST_CASE("submit: the body never runs inside the call") {
    critical_section cs;
    auto h = cs.submit([] { return std::this_thread::get_id(); });
    CHECK(sync_wait(h) != std::this_thread::get_id());
  }

  TEST_CASE("submit: runs on the section's executor, and is ready then") {
    loop l;
    critical_section cs{on(l)};
    auto h = cs.submit([&] { return l.here(); });
    CHECK_FALSE(h.ready());
    CHECK(cs.statistics().held);
    CHECK(l.run() >= 1);
    CHECK(h.ready());
    CHECK(sync_wait(h));
  }

  TEST_CASE("submit: without an executor of its own, runs on the caller's") {
    loop l;
    critical_section cs;
    bool inside_call = true;
    bool ran_on_loop = false;
    async_scope scope{{.executor = l}};
    scope.spawn([](critical_section& s, loop& at, bool& inside, bool& there) -> task<> {
      s.post([&] { there = at.here() && !inside; });
      inside = false;
      co_return;
    }(cs, l, inside_call, ran_on_loop));
    l.run();
    sync_wait(scope.join());
    CHECK(ran_on_loop);
  }

  TEST_CASE("submit: results of every kind come through the handle") {
    loop l;
    critical_section cs{on(l)};
    int x = 0;
    auto nothing = cs.submit([&] { x = 1; });
    auto move_only = cs.submit([] { return std::make_unique<int>(2); });
    auto reference = cs.submit([&]() -> int& { return x; });
    auto waited = cs.submit([]() -> task<int> { co_return 3; });
    auto error = cs.submit([]() -> int { throw std::runtime_error("no"); });
    l.run();
    sync_wait(nothing);
    CHECK(x == 1);
    CHECK(*sync_wait(std::move(move_only)) == 2);
    CHECK(&sync_wait(reference) == &x);
    CHECK(sync_wait(std::move(waited)) == 3);
    CHECK_THROWS_WITH(sync_wait(error), "no");
  }

  TEST_CASE("submit: accepts an rvalue body that is not trivially destructible") {
    critical_section cs;
    CHECK(sync_wait(cs.submit([s = std::string("kept")] { return s; })) == "kept");
  }

  TEST_CASE("handle: may be awaited before its body has run") {
    loop l;
    critical_section cs{on(l)};
    auto h = cs.submit([] { return 4; });
    std::optional<int> got;
    const foreign f = wait_for(h, got);
    CHECK_FALSE(got.has_value());
    l.run();
    CHECK(got == 4);
  }

  TEST_CASE("handle: awaited on an executor, resumes there") {
    loop home;
    loop l;
    critical_section cs{on(l)};
    bool resumed_at_home = false;
    async_scope scope{{.executor = home}};
    scope.spawn([](critical_section& s, loop& at, bool& there) -> task<> {
      co_await s.submit([] {});
      there = at.here();
    }(cs, home, resumed_at_home));
    home.run();
    l.run();
    home.run();
    CHECK(resumed_at_home);
    sync_wait(scope.join());
  }

  TEST_CASE("handle: moves, and what is assigned over is dropped") {
    loop l;
    critical_section cs{on(l)};
    int runs = 0;
    auto a = cs.submit([&] { return ++runs; });
    auto b = cs.submit([&] { return ++runs; });
    auto c = std::move(a);
    c = std::move(b);
    l.run();
    CHECK(runs == 2);
    CHECK(sync_wait(c) == 2);
    static_assert(!std::is_copy_constructible_v<execution_handle<int>>);
    static_assert(noexcept(c.ready()));
  }

  TEST_CASE("handle: dropping it detaches, before, while and after the body runs") {
    {
      loop l;
      critical_section cs{on(l)};
      gate g;
      int runs = 0;
      const counted captured(1);
      auto body = [captured, &runs] {
        ++runs;
        return counted(captured.value);
      };
      cs.submit(body);  // before it runs; no compiler warns
      auto after = std::make_optional(cs.submit(body));
      auto waiting = std::make_optional(cs.submit([captured, &g, &runs]() -> task<counted> {
        co_await g;
        ++runs;
        co_return captured;
      }));
      l.run();
      CHECK(runs == 2);
      after.reset();
      waiting.reset();
      g.open();
      l.run();
      CHECK(runs == 3);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("handle: the error of a dropped one goes to on_unobserved_error") {
    const unobserved errors;
    loop l;
    critical_section cs{on(l)};
    auto fail = []() -> int { throw std::runtime_error("unheard"); };
    {
      auto before = cs.submit(fail);
    }
    auto after = std::make_optional(cs.submit(fail));
    auto heard = cs.submit(fail);
    l.run();
    after.reset();
    CHECK_THROWS(sync_wait(heard));
    REQUIRE(errors.seen().size() == 2);
    for (const auto& e : errors.seen()) {
      CHECK_THROWS_WITH(std::rethrow_exception(e.error), "unheard");
      CHECK(e.section == "on a loop");
      CHECK(std::string(e.where.file_name()).ends_with("submit.cpp"));
    }
  }

  TEST_CASE("handle: what is assigned over is let go at once") {
    const unobserved errors;
    critical_section cs;
    auto first = cs.submit([] { throw std::runtime_error("unheard"); });
    auto second = cs.submit([] {});
    while (!second.ready()) std::this_thread::yield();
    first = std::move(second);
    CHECK(errors.seen().size() == 1);
    CHECK_NOTHROW(sync_wait(std::move(first)));
  }

  TEST_CASE("handle: one that is awaited is not to be let go of") {
    const auto child = [] {
      critical_section cs{"awaited"};
      support::loop l;
      const section_guard busy = support::hold(cs);
      auto handle = cs.submit([] {});
      const auto wait = [&]() -> task<> { co_await handle; };
      async_scope scope{{.executor = l}};
      scope.spawn(wait());
      l.run();
      handle = cs.submit([] {});
    };
    support::check_dies(
        child, "section \"awaited\": an execution_handle is destroyed while it is awaited");
  }

  TEST_CASE("an error nobody takes is told in one line, whatever it says") {
    const support::child_end end = support::in_child([] {
      manual_executor on;
      critical_section cs({.name = "told", .executor = on});
      cs.post([] { throw std::runtime_error("one\ntwo"); });
      on.run();
    });
    CHECK(end.one_line());
    CHECK(end.says("section \"told\": an error nobody takes: one two ("));
  }

  TEST_CASE("handle: the error of one that was moved from and then awaited reaches nobody else") {
    const unobserved errors;
    critical_section cs;
    auto first = cs.submit([] { throw std::runtime_error("once"); });
    auto second = std::move(first);
    CHECK_THROWS_WITH(sync_wait(std::move(second)), "once");
    CHECK(errors.seen().empty());
  }

  TEST_CASE("submit: refused after close, it completes its handle with the error") {
    const unobserved errors;
    critical_section cs{"shut"};
    sync_wait(cs.close());
    auto h = cs.submit([] { return 1; });
    CHECK(h.ready());
    CHECK_THROWS_AS(sync_wait(h), section_closed);
    CHECK(errors.seen().empty());
    {
      auto dropped = cs.submit([] { return 1; });
    }
    REQUIRE(errors.seen().size() == 1);
    CHECK_THROWS_AS(std::rethrow_exception(errors.seen()[0].error), section_closed);
    CHECK(errors.seen()[0].section == "shut");
  }

  TEST_CASE("post: the body never runs inside the call") {
    critical_section cs;
    std::thread::id ran_on;
    cs.post([&] { ran_on = std::this_thread::get_id(); });
    sync_wait(cs.close());
    CHECK(ran_on != std::thread::id{});
    CHECK(ran_on != std::this_thread::get_id());
  }

  TEST_CASE("post: never runs a body inside the call, from inside a body either") {
    loop l;
    critical_section outer{on(l)};
    critical_section inner;
    bool inside_call = false;
    bool nested = false;
    outer.post([&] {
      inside_call = true;
      inner.post([&] { nested = inside_call; });
      static_cast<void>(inner.submit([&] { nested = nested || inside_call; }));
      inside_call = false;
    });
    l.run();
    CHECK_FALSE(nested);
    CHECK(inner.statistics().executions == 2);
  }

  TEST_CASE("post: its error goes to on_unobserved_error, with the section and the place") {
    const unobserved errors;
    loop l;
    critical_section cs{section_options{.name = "posted", .executor = l}};
    cs.post([] { throw std::runtime_error("plain"); });
    const unsigned line = __LINE__ - 1;
    cs.post([]() -> task<> {
      throw std::runtime_error("awaited");
      co_return;
    });
    l.run();
    REQUIRE(errors.seen().size() == 2);
    CHECK_THROWS_WITH(std::rethrow_exception(errors.seen()[0].error), "plain");
    CHECK_THROWS_WITH(std::rethrow_exception(errors.seen()[1].error), "awaited");
    CHECK(errors.seen()[0].section == "posted");
    CHECK(errors.seen()[0].where.line() == line);
  }

  TEST_CASE("post: the result of an awaitable body is thrown away, and destroyed once") {
    {
      loop l;
      critical_section cs{on(l)};
      const counted captured(2);
      cs.post([captured] { return captured; });
      cs.post([captured]() -> task<counted> { co_return captured; });
      l.run();
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("post: refused after close, it throws from the call") {
    critical_section cs;
    sync_wait(cs.close());
    {
      const counted captured(1);
      CHECK_THROWS_AS(cs.post([captured] {}), section_closed);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("on_unobserved_error: the default prints one line with the section's name") {
    const support::child_end said = support::in_child([] {
      loop l;
      critical_section cs{section_options{.name = "accounts", .executor = l}};
      cs.post([] { throw std::runtime_error("overdrawn"); });
      l.run();
    });
    CHECK_FALSE(said.aborted);
    CHECK(said.one_line());
    CHECK(said.says("accounts"));
    CHECK(said.says("overdrawn"));
    CHECK(said.says("submit.cpp"));
  }

  TEST_CASE("on_unobserved_error: a handler that throws ends the program") {
    const support::child_end end = support::in_child([] {
      std::set_terminate([] {
        std::fputs("terminated\n", stderr);
        std::abort();
      });
      on_unobserved_error([](std::exception_ptr error, std::string_view, std::source_location) {
        std::rethrow_exception(std::move(error));
      });
      manual_executor jobs;
      critical_section cs({.executor = jobs});
      cs.post([] { throw std::runtime_error("overdrawn"); });
      try {
        jobs.run();
      } catch (const std::runtime_error&) {
      }
    });
    CHECK(end.aborted);
    CHECK(end.said == "terminated\n");
  }
}
