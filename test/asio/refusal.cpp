// refusal.cpp - what refuses a request goes to its handler, and is never thrown from the call.

#include "asio/told.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <boost/asio.hpp>
#include <chrono>
#include <doctest/doctest.h>
#include <stop_token>

using namespace turnstile;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using support::gate;
using support::hold;
using support::told;

TEST_SUITE("asio") {
  TEST_CASE("refused: a closed section") {
    asio::io_context io;
    critical_section cs;
    sync_wait(cs.close());
    told<int> t;
    async_execute(cs, [] { return 1; }, asio::bind_executor(io, t.handler()));
    CHECK(t.calls == 0);
    io.run();
    CHECK(t.how == "closed");
    CHECK(t.value == 0);
    CHECK(cs.statistics().refused == 1);
  }

  TEST_CASE("refused: no room to wait") {
    asio::io_context io;
    critical_section cs{section_options{.max_waiters = 1}};
    section_guard guard = hold(cs);
    told<void> first;
    told<void> second;
    async_execute(cs, [] {}, asio::bind_executor(io, first.handler()));
    async_execute(cs, [] {}, asio::bind_executor(io, second.handler()));
    io.poll();
    CHECK(first.calls == 0);
    CHECK(second.how == "full");
    guard.unlock();
    io.restart();
    io.run();
    CHECK(first.how == "ran");
  }

  TEST_CASE("refused: a resource that another section has claimed") {
    asio::io_context io;
    critical_section a;
    critical_section b;
    resource r;
    told<void> first;
    told<void> second;
    async_execute(a, [] {}, {.uses = r}, asio::bind_executor(io, first.handler()));
    async_execute(b, [] {}, {.uses = r}, asio::bind_executor(io, second.handler()));
    io.run();
    CHECK(first.how == "ran");
    CHECK(second.how == "claimed");
    CHECK(b.statistics().executions == 0);
  }

  TEST_CASE("refused: a stopped token, a past deadline; both are a cancellation") {
    asio::io_context io;
    critical_section cs;
    std::stop_source stop;
    stop.request_stop();
    const auto past = std::chrono::steady_clock::now() - 1s;
    told<void> stopped;
    told<void> late;
    told<void> both;
    async_execute(
        cs, [] {}, {.stop = stop.get_token()}, asio::bind_executor(io, stopped.handler()));
    async_execute(cs, [] {}, {.deadline = past}, asio::bind_executor(io, late.handler()));
    async_execute(
        cs, [] {}, {.stop = stop.get_token(), .deadline = past},
        asio::bind_executor(io, both.handler()));
    CHECK(stopped.calls + late.calls + both.calls == 0);
    io.run();
    CHECK(stopped.how == "cancelled");
    CHECK(late.how == "expired");
    CHECK(both.how == "cancelled");
    CHECK(cs.statistics().withdrawn == 3);
    CHECK(cs.statistics().executions == 0);
  }

  TEST_CASE("the call is not part of the chain that makes it: its own section makes it wait") {
    asio::io_context io;
    critical_section cs;
    told<void> outer;
    told<int> inner;
    bool inner_ran_inside = true;
    async_execute(
        cs,
        [&] {
          async_execute(cs, [] { return 2; }, asio::bind_executor(io, inner.handler()));
          inner_ran_inside = cs.statistics().executions != 0;
        },
        asio::bind_executor(io, outer.handler()));
    io.run();
    CHECK_FALSE(inner_ran_inside);
    CHECK(outer.how == "ran");
    CHECK(inner.value == 2);
  }

  TEST_CASE("nor does a body hold the sections of the chain in which it happens to run") {
    asio::io_context io;
    critical_section a;
    critical_section b;
    told<void> t;
    gate g;
    // The body of b waits for a, which the caller holds: no error, for the caller does not wait for
    // it.
    const auto wait_for_a = [&]() -> task<> { co_await a.execute([] {}); };
    async_scope scope;
    const auto hold_a = [&]() -> task<> {
      async_execute(b, wait_for_a, asio::bind_executor(io, t.handler()));
      co_await g;
    };
    scope.spawn(a.execute(hold_a));
    io.poll();
    CHECK(t.calls == 0);
    g.open();
    sync_wait(scope.join());
    io.restart();
    io.run();
    CHECK(t.how == "ran");
  }

  TEST_CASE("inside the section, what the body itself awaits is checked") {
    asio::io_context io;
    critical_section cs;
    told<void> t;
    bool refused = false;
    const auto again = [&]() -> task<> {
      try {
        co_await cs.execute([] {});
      } catch (const reentry_error&) {
        refused = true;
      }
    };
    async_execute(cs, again, asio::bind_executor(io, t.handler()));
    io.run();
    CHECK(refused);
    CHECK(t.how == "ran");
  }
}
