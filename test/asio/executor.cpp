// executor.cpp - asio_executor: jobs on the threads that run an io_context.

#include "support/hold.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <boost/asio.hpp>
#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <functional>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using support::hold;

namespace {

static_assert(executor<asio_executor>);
static_assert(executor<basic_asio_executor<asio::any_io_executor>>);

// A job that calls a function.
struct call : job {
  explicit call(std::function<void()> f) : job(&run_it), function(std::move(f)) {}
  static void run_it(job& j) noexcept { static_cast<call&>(j).function(); }
  std::function<void()> function;
};

// Asks until it is told that it is enough, or for so long that nobody will say so.
task<> ask_until(critical_section& cs, const bool& enough, bool& was_told) {
  const auto nothing = [] {};
  const auto end = std::chrono::steady_clock::now() + 20s;
  while (!enough && std::chrono::steady_clock::now() < end) co_await cs.execute(nothing);
  was_told = enough;
}

bool is_in(asio::io_context& io) { return io.get_executor().running_in_this_thread(); }

}  // namespace

TEST_SUITE("asio") {
  TEST_CASE("asio_executor: runs jobs in order, only when the context is run") {
    asio::io_context io;
    asio_executor on{io};
    const executor_ref ref = on;
    std::string order;
    std::vector<std::unique_ptr<call>> jobs;
    for (const char c : {'a', 'b', 'c'}) {
      jobs.push_back(std::make_unique<call>([&order, c] { order += c; }));
      ref.post(*jobs.back());
    }
    CHECK(order.empty());
    io.run();
    CHECK(order == "abc");
  }

  TEST_CASE("asio_executor: many jobs are few handlers") {
    asio::io_context io;
    asio_executor on{io};
    const executor_ref ref = on;
    int ran = 0;
    std::vector<std::unique_ptr<call>> jobs;
    for (int i = 0; i != 64; ++i) jobs.push_back(std::make_unique<call>([&] { ++ran; }));
    for (const auto& j : jobs) ref.post(*j);
    const std::size_t handlers = io.run();
    CHECK(ran == 64);
    CHECK(handlers <= 8);
  }

  TEST_CASE("asio_executor: a chain of jobs is posted in one go") {
    asio::io_context io;
    asio_executor on{io};
    std::string order;
    call a([&] { order += 'a'; });
    call b([&] { order += 'b'; });
    a.next = &b;
    executor_ref(on).post(&a, &b, 2);
    io.run();
    CHECK(order == "ab");
  }

  TEST_CASE("asio_executor: a job that blocks does not keep the others from other threads") {
    asio::io_context io;
    asio_executor on{io};
    const executor_ref ref = on;
    std::latch second_ran(1);
    call first([&] { second_ran.wait(); });
    call second([&] { second_ran.count_down(); });
    ref.post(first);
    ref.post(second);
    const std::jthread other([&] { io.run(); });
    io.run();
    CHECK(second_ran.try_wait());
  }

  TEST_CASE("asio_executor: a job may end its life") {
    asio::io_context io;
    auto on = std::make_unique<asio_executor>(io);
    call last([&] { on.reset(); });
    executor_ref(*on).post(last);
    io.run();
    CHECK(on == nullptr);
  }

  TEST_CASE("asio_executor: a context that ends with jobs never runs them") {
    bool ran = false;
    call never([&] { ran = true; });
    auto io = std::make_optional<asio::io_context>();
    asio_executor on{*io};
    executor_ref(on).post(never);
    io.reset();
    CHECK_FALSE(ran);
  }

  TEST_CASE("asio_executor: as a section's executor, runs the bodies") {
    asio::io_context io;
    asio_executor on{io};
    critical_section cs{section_options{.executor = on}};
    auto h = cs.submit([&] { return is_in(io); });
    CHECK_FALSE(h.ready());
    io.run();
    CHECK(sync_wait(h));
  }

  TEST_CASE("asio_executor: as a scope's executor, a task starts and goes on there") {
    asio::io_context io;
    asio_executor on{io};
    critical_section cs;
    section_guard guard = hold(cs);
    bool began = false;
    bool went_on = false;
    async_scope scope{{.executor = on}};
    const auto work = [&]() -> task<> {
      began = is_in(io);
      co_await cs.execute([] {});
      went_on = is_in(io);
    };
    scope.spawn(work());
    io.poll();
    CHECK(began);
    guard.unlock();
    CHECK_FALSE(went_on);
    io.restart();
    io.run();
    CHECK(went_on);
    sync_wait(scope.join());
  }

  TEST_CASE("asio_executor: a task that need not suspend lets another job run") {
    asio::io_context io;
    asio_executor on{io};
    critical_section cs;
    bool enough = false;
    bool was_told = false;
    std::uint64_t ran = 0;
    async_scope scope{{.executor = on}};
    scope.spawn(ask_until(cs, enough, was_told));
    call other([&] {
      ran = cs.statistics().executions;
      enough = true;
    });
    executor_ref(on).post(other);
    io.run();
    CHECK(was_told);
    CHECK(ran > 0);
    CHECK(ran < 256 + 32);  // a turn is longer if the thread begins to keep the section in it
    sync_wait(scope.join());
  }

  TEST_CASE("asio_executor: a task that need not suspend lets a timer of Asio's fire") {
    asio::io_context io;
    asio_executor on{io};
    critical_section cs;
    bool fired = false;
    bool was_told = false;
    async_scope scope{{.executor = on}};
    scope.spawn(ask_until(cs, fired, was_told));
    asio::steady_timer timer(io, std::chrono::steady_clock::now());
    timer.async_wait([&](auto) { fired = true; });
    io.run();
    CHECK(was_told);
    sync_wait(scope.join());
  }

  TEST_CASE("asio_executor: as resume_on, a coroutine from elsewhere goes on there") {
    asio::io_context io;
    asio_executor on{io};
    critical_section cs;
    bool there = false;
    async_scope scope;
    const auto work = [&]() -> task<> {
      co_await cs.execute([] {}, {.resume_on = on});
      there = is_in(io);
    };
    scope.spawn(work());
    CHECK_FALSE(there);
    io.run();
    CHECK(there);
    sync_wait(scope.join());
  }

  TEST_CASE("asio_executor: on a strand, a pool, and what any_io_executor holds") {
    asio::thread_pool pool(2);
    basic_asio_executor<asio::any_io_executor> any{asio::any_io_executor(pool.get_executor())};
    basic_asio_executor<asio::thread_pool::executor_type> direct{pool};
    auto strand = asio::make_strand(pool);
    basic_asio_executor<decltype(strand)> one_at_a_time{strand};
    std::latch ran(3);
    call a([&] { ran.count_down(); });
    call b([&] { ran.count_down(); });
    bool in_strand = false;
    call c([&] {
      in_strand = strand.running_in_this_thread();
      ran.count_down();
    });
    executor_ref(any).post(a);
    executor_ref(direct).post(b);
    executor_ref(one_at_a_time).post(c);
    ran.wait();
    CHECK(in_strand);
    pool.join();
  }
}
