// tokens.cpp - async_execute with every kind of completion token: where it completes, and with
// what.

#include "asio/told.hpp"
#include "support/counted.hpp"
#include "support/gate.hpp"
#include "support/hold.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <boost/asio.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <doctest/doctest.h>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

using namespace turnstile;
namespace asio = boost::asio;
using support::counted;
using support::gate;
using support::hold;
using support::told;

namespace {

// Runs `f()`, a coroutine of Asio's, to its end on this thread.
template <class F>
void run(F f) {
  asio::io_context io;
  std::exception_ptr failed;
  int ends = 0;
  asio::co_spawn(io, f, [&](std::exception_ptr e) {
    failed = e;
    ++ends;
  });
  io.run();
  REQUIRE(ends == 1);
  if (failed) std::rethrow_exception(failed);
}

// A result that has no move of its own.
struct copied_so_often {
  copied_so_often() = default;
  explicit copied_so_often(int copies) : left(copies) {}
  copied_so_often(const copied_so_often& other) : left(other.left) {
    if (left-- == 0) throw std::length_error("it was copied too often");
  }
  int left = 0;
};

}  // namespace

// A handler and a body beside which there are functions of the same names as ours.
namespace another {

template <class... T, class... A>
void allocator_of(A&&...);
template <class... T, class... A>
void context_executor(A&&...);
template <class... T, class... A>
void run_held(A&&...);

struct handler {
  int* got;
  void operator()(const std::exception_ptr&, int n) { *got = n; }
};
struct body {
  int operator()() { return 6; }
};

}  // namespace another

TEST_SUITE("asio") {
  TEST_CASE("async_execute: completes on the handler's executor, never inside the call") {
    asio::io_context io;
    critical_section cs;
    told<int> idle;
    async_execute(cs, [] { return 1; }, asio::bind_executor(io, idle.handler()));
    CHECK(idle.calls == 0);
    section_guard guard = hold(cs);
    told<int> busy;
    async_execute(cs, [] { return 2; }, asio::bind_executor(io, busy.handler()));
    io.poll();
    CHECK(idle.calls == 1);
    CHECK(idle.value == 1);
    CHECK(busy.calls == 0);
    guard.unlock();
    CHECK(busy.calls == 0);
    io.run();
    CHECK(busy.calls == 1);
    CHECK(busy.value == 2);
    CHECK(cs.statistics().executions == 3);
  }

  TEST_CASE("async_execute: what is found beside a user's types is not called") {
    asio::io_context io;
    critical_section cs;
    int got = 0;
    async_execute(cs, another::body{}, asio::bind_executor(io, another::handler{&got}));
    section_guard guard = hold(cs);
    async_execute(cs, another::body{}, asio::bind_executor(io, another::handler{&got}));
    guard.unlock();
    io.run();
    CHECK(got == 6);
  }

  TEST_CASE("async_execute: also within a handler of the same executor it completes later") {
    asio::io_context io;
    critical_section cs;
    told<void> t;
    asio::post(io, [&] {
      async_execute(cs, [] {}, asio::bind_executor(io, t.handler()));
      CHECK(t.calls == 0);
    });
    io.run();
    CHECK(t.how == "ran");
  }

  TEST_CASE("async_execute: completes on a strand") {
    asio::io_context io;
    critical_section cs;
    auto strand = asio::make_strand(io);
    bool there = false;
    async_execute(
        cs, [] {}, asio::bind_executor(strand, [&](std::exception_ptr) {
          there = strand.running_in_this_thread();
        }));
    io.run();
    CHECK(there);
  }

  TEST_CASE("async_execute: a handler without an executor gets Asio's own") {
    critical_section cs;
    std::promise<std::thread::id> where;
    async_execute(
        cs, [] {}, [&](std::exception_ptr) { where.set_value(std::this_thread::get_id()); });
    CHECK(where.get_future().get() != std::this_thread::get_id());
  }

  TEST_CASE("async_execute: run does not return while the request waits") {
    asio::io_context io;
    critical_section cs;
    section_guard guard = hold(cs);
    told<int> t;
    async_execute(cs, [] { return 3; }, asio::bind_executor(io, t.handler()));
    const std::jthread holder([&] { guard.unlock(); });
    io.run();
    CHECK(t.value == 3);
    CHECK(t.thread == std::this_thread::get_id());
  }

  TEST_CASE("async_execute: nor while the body runs in the call, on another thread") {
    asio::io_context io;
    critical_section cs;
    told<int> t;
    std::latch begun{1};
    const std::jthread caller([&] {
      async_execute(
          cs,
          [&] {
            begun.count_down();
            while (io.stopped()) std::this_thread::yield();
            return 3;
          },
          asio::bind_executor(io, t.handler()));
    });
    begun.wait();
    io.run();
    CHECK(t.value == 3);
  }

  TEST_CASE("use_future: gives the value, or the body's error") {
    critical_section cs;
    CHECK(async_execute(cs, [] { return 4; }, asio::use_future).get() == 4);
    async_execute(cs, [] {}, asio::use_future).get();
    auto failed =
        async_execute(cs, []() -> int { throw std::runtime_error("no"); }, asio::use_future);
    CHECK_THROWS_WITH(failed.get(), "no");
    auto after = async_execute(cs, [] { return std::string("after"); }, asio::use_future);
    CHECK(after.get() == "after");
  }

  TEST_CASE("use_awaitable: gives the value, or throws the body's error") {
    critical_section cs;
    run([&]() -> asio::awaitable<void> {
      CHECK(co_await async_execute(cs, [] { return 5; }, asio::use_awaitable) == 5);
      co_await async_execute(cs, [] {}, asio::use_awaitable);
      CHECK(*co_await async_execute(
                cs, [] { return std::make_unique<int>(6); }, asio::use_awaitable) == 6);
      std::string error;
      try {
        co_await async_execute(cs, [] { throw std::runtime_error("no"); }, asio::use_awaitable);
      } catch (const std::runtime_error& e) {
        error = e.what();
      }
      CHECK(error == "no");
    });
    CHECK(cs.statistics().executions == 4);
  }

  TEST_CASE("use_awaitable: the coroutine goes on on its executor, whoever served it") {
    asio::io_context io;
    critical_section cs;
    section_guard guard = hold(cs);
    std::thread::id served;
    std::thread::id after;
    asio::co_spawn(
        io,
        [&]() -> asio::awaitable<void> {
          served = co_await async_execute(
              cs, [] { return std::this_thread::get_id(); }, asio::use_awaitable);
          after = std::this_thread::get_id();
        },
        asio::detached);
    io.poll();  // it waits in line now, not only on its way there: else it might be served here
    REQUIRE(cs.statistics().waiters == 1);
    const std::jthread holder([&] { guard.unlock(); });
    io.run();
    CHECK(served == holder.get_id());
    CHECK(after == std::this_thread::get_id());
  }

  TEST_CASE("awaitable operators: two sections at once") {
    using namespace asio::experimental::awaitable_operators;
    critical_section a;
    critical_section b;
    run([&]() -> asio::awaitable<void> {
      const auto both = co_await (async_execute(
                                      a, [] { return 1; }, asio::use_awaitable) &&
                                  async_execute(b, [] { return 2; }, asio::use_awaitable));
      CHECK(both == std::tuple(1, 2));
    });
  }

  TEST_CASE("deferred: nothing happens until it is started, and the options are kept") {
    critical_section cs;
    std::stop_source stop;
    int runs = 0;
    const auto count = [&] { return ++runs; };
    auto later = async_execute(cs, count, {.stop = stop.get_token()}, asio::deferred);
    auto withdrawn = async_execute(cs, count, {.stop = stop.get_token()}, asio::deferred);
    CHECK(cs.statistics().executions == 0);
    CHECK(std::move(later)(asio::use_future).get() == 1);
    stop.request_stop();
    CHECK_THROWS_AS(std::move(withdrawn)(asio::use_future).get(), operation_cancelled);
    CHECK(runs == 1);
  }

  TEST_CASE("deferred: what is started as an lvalue is copied, and may be started again") {
    asio::io_context io;
    critical_section cs;
    std::stop_source stop;
    told<int> t[3];
    const auto body = [c = counted(4)]() mutable { return c.value++; };
    auto later = async_execute(cs, body, {.stop = stop.get_token()}, asio::deferred);
    later(asio::bind_executor(io, t[0].handler()));
    std::as_const(later)(asio::bind_executor(io, t[1].handler()));
    CHECK(cs.statistics().executions == 2);
    stop.request_stop();
    std::move(later)(asio::bind_executor(io, t[2].handler()));
    io.run();
    CHECK(t[0].value == 4);
    CHECK(t[1].value == 4);
    CHECK(t[2].how == "cancelled");
  }

  TEST_CASE("as_tuple: errors are values") {
    critical_section cs;
    run([&]() -> asio::awaitable<void> {
      const auto token = asio::as_tuple(asio::use_awaitable);
      const auto ran = co_await async_execute(cs, [] { return 7; }, token);
      CHECK(std::get<0>(ran) == nullptr);
      CHECK(std::get<1>(ran) == 7);
    });
  }

  TEST_CASE("results: beside an error there is a default one") {
    asio::io_context io;
    critical_section cs;
    told<std::optional<counted>> t;
    async_execute(
        cs, []() -> std::optional<counted> { throw std::runtime_error("no"); },
        asio::bind_executor(io, t.handler()));
    io.run();
    CHECK(t.how == "no");
    CHECK_FALSE(t.value->has_value());
  }

  TEST_CASE("results: of one that cannot be copied on its way the handler hears as of any error") {
    int errors = 0;
    int arrived = 0;
    for (int copies = 0; copies != 10; ++copies) {
      CAPTURE(copies);
      for (const bool waits : {false, true}) {
        asio::io_context io;
        critical_section cs;
        section_guard busy = hold(cs);
        if (!waits) busy.unlock();
        const auto body = [copies] { return copied_so_often(copies); };
        const auto handler = [&](const std::exception_ptr& e, const copied_so_often&) {
          ++(e == nullptr ? arrived : errors);
        };
        const int before = errors + arrived;
        async_execute(cs, body, asio::bind_executor(io, handler));
        busy.unlock();
        io.run();
        CHECK(errors + arrived == before + 1);
      }
    }
    CHECK(errors >= 4);
    CHECK(arrived >= 2);
  }

  TEST_CASE("results: move-only, const, and a pointer for a reference") {
    asio::io_context io;
    critical_section cs;
    int x = 0;
    told<std::unique_ptr<int>> moved;
    told<std::string> fixed;
    told<int*> pointer;
    async_execute(
        cs, [] { return std::make_unique<int>(8); }, asio::bind_executor(io, moved.handler()));
    async_execute(
        cs, []() -> const std::string { return "fixed"; },
        asio::bind_executor(io, fixed.handler()));
    async_execute(cs, [&] { return &x; }, asio::bind_executor(io, pointer.handler()));
    io.run();
    CHECK(**moved.value == 8);
    CHECK(fixed.value == "fixed");
    CHECK(pointer.value == &x);
  }

  TEST_CASE("bodies: an awaitable one is awaited with the section held") {
    asio::io_context io;
    critical_section cs;
    gate g;
    told<int> waits;
    told<int> next;
    const auto body = [&]() -> task<int> {
      co_await g;
      co_return 9;
    };
    async_execute(cs, body, asio::bind_executor(io, waits.handler()));
    async_execute(cs, [] { return 10; }, asio::bind_executor(io, next.handler()));
    io.poll();
    CHECK(cs.statistics().held);
    CHECK(waits.calls + next.calls == 0);
    g.open();
    io.run();
    CHECK(waits.value == 9);
    CHECK(next.value == 10);
  }

  TEST_CASE("bodies: an rvalue is moved, an lvalue copied, std::ref refers") {
    {
      asio::io_context io;
      critical_section cs;
      section_guard guard = hold(cs);
      told<int> t[3];
      const auto named = [c = counted(1)] { return c.value; };
      async_execute(
          cs, [c = counted(2)] { return c.value; }, asio::bind_executor(io, t[0].handler()));
      async_execute(cs, named, asio::bind_executor(io, t[1].handler()));
      CHECK(counted::alive() == 3);
      async_execute(cs, std::ref(named), asio::bind_executor(io, t[2].handler()));
      CHECK(counted::alive() == 3);
      guard.unlock();
      CHECK(counted::alive() == 1);
      io.run();
      CHECK(t[0].value == 2);
      CHECK(t[1].value == 1);
      CHECK(t[2].value == 1);
    }
    CHECK(counted::alive() == 0);
  }

  TEST_CASE("bodies: one section's run in the order of the calls, one at a time") {
    asio::io_context io;
    critical_section cs;
    std::string order;
    section_guard guard = hold(cs);
    for (const char c : {'a', 'b', 'c', 'd'}) {
      async_execute(
          cs, [&order, c] { order += c; },
          asio::bind_executor(io, [&order](std::exception_ptr) { order += '.'; }));
    }
    guard.unlock();
    CHECK(order == "abcd");
    io.run();
    CHECK(order == "abcd....");
  }

  TEST_CASE("synchronized: the body gets the data") {
    synchronized<std::string> name{"a"};
    run([&]() -> asio::awaitable<void> {
      co_await async_execute(name, [](std::string& s) { s += 'b'; }, asio::use_awaitable);
      const auto more = [](std::string& s) -> task<std::size_t> {
        s += 'c';
        co_return s.size();
      };
      CHECK(co_await async_execute(name, more, {.name = "more"}, asio::use_awaitable) == 3);
    });
  }

  TEST_CASE("a body that only submits: the handler is called when its work is complete") {
    asio::io_context io;
    manual_executor lane;
    stream s(device::host(), {.executor = lane});
    synchronized<int> n(1, section_options{.place = device::host()});
    const auto submits = [](int& v, stream& to) {
      to.enqueue([&v] { ++v; });
      return v;
    };
    told<int> t;
    async_execute(n, submits, {.on = &s}, asio::bind_executor(io, t.handler()));
    CHECK(lane.run() != 0);
    while (t.calls == 0) {
      io.restart();
      io.run();
    }
    CHECK(t.value == 1);
    CHECK(n.execute_blocking([](int& v) { return v; }) == 2);
  }

  TEST_CASE("a section with an executor runs the body there") {
    asio::io_context io;
    manual_executor home;
    critical_section cs{section_options{.executor = home}};
    told<int> t;
    async_execute(cs, [] { return 11; }, asio::bind_executor(io, t.handler()));
    CHECK(io.poll() == 0);
    CHECK(home.run() == 1);
    CHECK(t.calls == 0);
    io.restart();
    io.run();
    CHECK(t.value == 11);
  }

  TEST_CASE("a section may end as soon as the handler of its last execution is called") {
    asio::io_context io;
    auto cs = std::make_unique<critical_section>();
    async_execute(*cs, [] {}, asio::bind_executor(io, [&](std::exception_ptr) { cs.reset(); }));
    io.run();
    CHECK(cs == nullptr);
  }
}
