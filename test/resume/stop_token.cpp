// stop_token.cpp - what a coroutine finds out about its surroundings.

#include "support/foreign.hpp"
#include "support/gate.hpp"

#include <turnstile/turnstile.hpp>

#include <doctest/doctest.h>
#include <stop_token>
#include <utility>

using namespace turnstile;
using support::foreign;
using support::gate;

namespace {

task<> look(std::stop_token& out) { out = co_await current_stop_token(); }

}  // namespace

TEST_SUITE("resume") {
  TEST_CASE("current_stop_token: never stops where nothing surrounds it") {
    std::stop_token token = sync_wait(current_stop_token());
    CHECK_FALSE(token.stop_possible());
    sync_wait(look(token));
    CHECK_FALSE(token.stop_possible());
  }

  TEST_CASE("current_stop_token: of the scope, in its work, its children and its bodies") {
    async_scope scope;
    critical_section cs;
    std::stop_token direct;
    std::stop_token in_child;
    std::stop_token in_body;
    scope.spawn(look(direct));
    scope.spawn(when_all(look(in_child)));
    scope.spawn([](critical_section& s, std::stop_token& out) -> task<> {
      auto body = [&out] { return look(out); };
      co_await s.execute(body);
    }(cs, in_body));
    sync_wait(scope.join());
    CHECK_FALSE(direct.stop_requested());
    scope.request_stop();
    CHECK(direct.stop_requested());
    CHECK(in_child.stop_requested());
    CHECK(in_body.stop_requested());
  }

  TEST_CASE("current_stop_token: the innermost counts, and outlives what it is of") {
    std::stop_token inner;
    std::stop_token outer;
    {
      async_scope scope;
      gate g;
      g.open();
      scope.spawn([](std::stop_token& in, std::stop_token& out) -> task<> {
        static_cast<void>(co_await when_any(look(in)));
        co_await look(out);
      }(inner, outer));
      sync_wait(scope.join());
      CHECK(inner.stop_requested());
      CHECK_FALSE(outer.stop_requested());
      CHECK(outer == scope.stop_token());
    }
    CHECK(inner.stop_requested());
    CHECK_FALSE(outer.stop_requested());
  }

  TEST_CASE("current_stop_token: in work of an ordered_scope there is none") {
    ordered_scope scope;
    variable<int> v{0};
    std::stop_token token = std::stop_source().get_token();
    scope.add(reads(v), [&token] { return look(token); });
    sync_wait(scope.join());
    CHECK_FALSE(token.stop_possible());
  }

  TEST_CASE("current_stop_token: a foreign coroutine has what it was started below") {
    std::stop_token token;
    gate g;
    async_scope scope;
    auto starts = [](gate& at, std::stop_token& out) -> foreign {
      co_await at;
      out = co_await current_stop_token();
    };
    static_cast<void>(starts);
    auto started = [](std::stop_token& out) -> foreign { out = co_await current_stop_token(); };
    auto whole = [&]() -> task<> {
      const foreign f = started(token);
      co_return;
    };
    static_cast<void>(sync_wait(when_any(whole())));
    CHECK(token.stop_requested());
  }
}
