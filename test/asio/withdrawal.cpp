// withdrawal.cpp - a request that waits is withdrawn through the token's cancellation slot, by its
// own stop token, or at its deadline.

#include "asio/told.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/manual_clock.hpp>
#include <turnstile/turnstile.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <chrono>
#include <doctest/doctest.h>
#include <stop_token>

using namespace turnstile;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using support::gate;
using support::hold;
using support::told;

namespace {

// A handler of `t` on `io` whose operation `signal` cancels.
template <class T>
auto cancellable(asio::io_context& io, asio::cancellation_signal& signal, told<T>& t) {
  return asio::bind_cancellation_slot(signal.slot(), asio::bind_executor(io, t.handler()));
}

}  // namespace

TEST_SUITE("asio") {
  TEST_CASE("slot: any type of cancellation withdraws a request that waits, at once") {
    for (const auto type : {asio::cancellation_type::terminal, asio::cancellation_type::partial,
                            asio::cancellation_type::total, asio::cancellation_type::all}) {
      asio::io_context io;
      asio::cancellation_signal signal;
      critical_section cs;
      section_guard guard = hold(cs);
      told<int> t;
      async_execute(cs, [] { return 1; }, cancellable(io, signal, t));
      signal.emit(type);
      CHECK(t.calls == 0);
      io.run();
      CHECK(t.how == "cancelled");
      CHECK(t.value == 0);
      CHECK(cs.statistics().withdrawn == 1);
      signal.emit(type);
      guard.unlock();
      CHECK(cs.statistics().executions == 1);
    }
  }

  TEST_CASE("slot: a signal of no type withdraws nothing") {
    asio::io_context io;
    asio::cancellation_signal signal;
    critical_section cs;
    section_guard guard = hold(cs);
    told<int> t;
    async_execute(cs, [] { return 1; }, cancellable(io, signal, t));
    signal.emit(asio::cancellation_type::none);
    guard.unlock();
    io.run();
    CHECK(t.value == 1);
  }

  TEST_CASE("slot: a body that runs is not stopped") {
    asio::io_context io;
    asio::cancellation_signal signal;
    critical_section cs;
    gate g;
    told<int> t;
    section_guard guard = hold(cs);
    const auto body = [&]() -> task<int> {
      co_await g;
      co_return 2;
    };
    async_execute(cs, body, cancellable(io, signal, t));
    guard.unlock();
    REQUIRE(g.waiting() == 1);
    signal.emit(asio::cancellation_type::all);
    io.poll();
    CHECK(t.calls == 0);
    g.open();
    io.restart();
    io.run();
    CHECK(t.value == 2);
  }

  TEST_CASE("slot: a signal after the end does nothing, and may come after the context") {
    asio::cancellation_signal signal;
    critical_section cs;
    {
      asio::io_context io;
      section_guard guard = hold(cs);
      told<int> t;
      async_execute(cs, [] { return 3; }, cancellable(io, signal, t));
      guard.unlock();
      signal.emit(asio::cancellation_type::all);
      io.run();
      CHECK(t.value == 3);
    }
    signal.emit(asio::cancellation_type::all);
    CHECK(cs.statistics().withdrawn == 0);
  }

  TEST_CASE("slot: the signal may end before the operation") {
    asio::io_context io;
    critical_section cs;
    section_guard guard = hold(cs);
    told<int> t;
    {
      asio::cancellation_signal signal;
      async_execute(cs, [] { return 4; }, cancellable(io, signal, t));
    }
    guard.unlock();
    io.run();
    CHECK(t.value == 4);
  }

  TEST_CASE("slot: also of a request that waits for its section's executor, or for room") {
    asio::io_context io;
    asio::cancellation_signal signal;
    manual_executor home;
    {
      critical_section cs{section_options{.executor = home}};
      told<int> t;
      async_execute(cs, [] { return 5; }, cancellable(io, signal, t));
      signal.emit(asio::cancellation_type::total);
      io.run();
      CHECK(t.how == "cancelled");
    }
    home.run();
    io.restart();
    critical_section narrow{section_options{.max_waiters = 1}};
    section_guard guard = hold(narrow);
    told<int> inside;
    async_execute(narrow, [] { return 6; }, cancellable(io, signal, inside));
    signal.emit(asio::cancellation_type::total);
    told<int> next;
    async_execute(narrow, [] { return 7; }, asio::bind_executor(io, next.handler()));
    guard.unlock();
    io.run();
    CHECK(inside.how == "cancelled");
    CHECK(next.value == 7);
  }

  TEST_CASE("slot, token and deadline: whichever comes first, once") {
    const auto soon = std::chrono::steady_clock::now() + 1h;
    for (const bool by_slot : {true, false}) {
      asio::io_context io;
      asio::cancellation_signal signal;
      std::stop_source stop;
      critical_section cs;
      section_guard guard = hold(cs);
      told<int> t;
      async_execute(
          cs, [] { return 8; }, {.stop = stop.get_token(), .deadline = soon},
          cancellable(io, signal, t));
      if (by_slot) signal.emit(asio::cancellation_type::partial);
      stop.request_stop();
      signal.emit(asio::cancellation_type::partial);
      io.run();
      CHECK(t.calls == 1);
      CHECK(t.how == "cancelled");
      CHECK(cs.statistics().withdrawn == 1);
    }
  }

  TEST_CASE("deadline: a request that waits ends with deadline_exceeded") {
    manual_clock clock;
    asio::io_context io;
    critical_section cs;
    section_guard guard = hold(cs);
    told<int> t;
    async_execute(
        cs, [] { return 9; }, {.deadline = clock.now() + 5s}, asio::bind_executor(io, t.handler()));
    clock.advance(4s);
    CHECK(io.poll() == 0);
    clock.advance(2s);
    io.restart();
    io.run();
    CHECK(t.how == "expired");
  }

  TEST_CASE("awaitable operators: what loses is withdrawn") {
    using namespace asio::experimental::awaitable_operators;
    asio::io_context io;
    critical_section cs;
    section_guard guard = hold(cs);
    std::size_t won = 9;
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> {
          asio::steady_timer now(io, 0s);
          const auto first = co_await (
              async_execute(cs, [] {}, asio::use_awaitable) || now.async_wait(asio::use_awaitable));
          won = first.index();
        },
        asio::detached);
    io.run();
    CHECK(won == 1);
    CHECK(cs.statistics().withdrawn == 1);
  }

  TEST_CASE("co_spawn: cancelling the coroutine withdraws what it waits for") {
    asio::io_context io;
    asio::cancellation_signal signal;
    critical_section cs;
    section_guard guard = hold(cs);
    told<void> t;
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> { co_await async_execute(cs, [] {}, asio::use_awaitable); },
        asio::bind_cancellation_slot(signal.slot(), t.handler()));
    io.poll();
    CHECK(cs.statistics().waiters == 1);
    signal.emit(asio::cancellation_type::terminal);
    io.run();
    CHECK(t.how == "cancelled");
  }
}
