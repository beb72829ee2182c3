// stress.cpp - several threads run one io_context, whose coroutines ask for one section, while
// signals and stop tokens withdraw some of what waits. Each request ends exactly once, and what
// bodies write is plain.

#include "stress/dice.hpp"

#include <turnstile/asio.hpp>
#include <turnstile/turnstile.hpp>

#include <atomic>
#include <boost/asio.hpp>
#include <cstddef>
#include <doctest/doctest.h>
#include <memory>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

using namespace turnstile;
namespace asio = boost::asio;
using stress::dice;

namespace {

using strand = asio::strand<asio::io_context::executor_type>;

struct field {
  asio::io_context io;
  critical_section cs;
  long bodies = 0;  // plain: only in bodies
  std::atomic<long> ran{0};
  std::atomic<long> withdrawn{0};
  std::atomic<long> asked{0};
  std::atomic<long> elsewhere{0};

  void run(int threads) {
    std::vector<std::jthread> crew;
    for (int i = 1; i < threads; ++i) crew.emplace_back([this] { io.run(); });
    io.run();
  }

  void check() const {
    CHECK(elsewhere == 0);
    CHECK(ran + withdrawn == asked);
    CHECK(bodies == ran);
    CHECK(cs.statistics().executions == static_cast<std::uint64_t>(ran.load()));
    CHECK(cs.statistics().withdrawn == static_cast<std::uint64_t>(withdrawn.load()));
    CHECK_FALSE(cs.statistics().held);
    CHECK(cs.statistics().waiters == 0);
  }
};

// A client on a strand of its own, on which it is cancelled, too.
class client : public std::enable_shared_from_this<client> {
 public:
  client(field& f, std::uint32_t who, int turns)
      : field_(f), here_(asio::make_strand(f.io)), luck_(who), turns_(turns) {}

  void begin() {
    asio::post(here_, [self = shared_from_this()] { self->ask(); });
  }

 private:
  void ask() {
    if (turns_-- == 0) return;
    ++field_.asked;
    std::stop_source stop;
    const std::stop_token token = luck_.one_in(4) ? stop.get_token() : std::stop_token{};
    auto heard = [self = shared_from_this()](std::exception_ptr failed) { self->hear(failed); };
    auto slotted = asio::bind_cancellation_slot(signal_.slot(), asio::bind_executor(here_, heard));
    auto body = [&all = field_] { ++all.bodies; };
    async_execute(field_.cs, body, {.stop = token}, std::move(slotted));
    if (luck_.one_in(3)) signal_.emit(asio::cancellation_type::total);
    if (luck_.one_in(3)) asio::post(field_.io, [stop]() mutable { stop.request_stop(); });
    if (luck_.one_in(5)) {
      asio::post(here_, [self = shared_from_this()] {
        self->signal_.emit(asio::cancellation_type::terminal);
      });
    }
  }

  void hear(const std::exception_ptr& failed) {
    if (!here_.running_in_this_thread()) ++field_.elsewhere;
    ++(failed ? field_.withdrawn : field_.ran);
    ask();
  }

  field& field_;
  strand here_;
  asio::cancellation_signal signal_;
  dice luck_;
  int turns_;
};

}  // namespace

TEST_SUITE("asio") {
  TEST_CASE("clients that are cancelled at any moment: each request ends once") {
    field f;
    const int turns = stress::times_scale(stress::sanitized ? 400 : 4000);
    for (std::uint32_t who = 0; who != 32; ++who) std::make_shared<client>(f, who, turns)->begin();
    f.run(4);
    CHECK(f.asked == 32L * turns);
    f.check();
  }

  TEST_CASE("coroutines of Asio's on four threads: no body is lost, none runs twice") {
    field f;
    const int turns = stress::times_scale(stress::sanitized ? 500 : 5000);
    for (int who = 0; who != 64; ++who) {
      asio::co_spawn(
          f.io,
          [&f, turns]() -> asio::awaitable<void> {
            for (int i = 0; i != turns; ++i) {
              co_await async_execute(f.cs, [&f] { ++f.bodies; }, asio::use_awaitable);
              ++f.ran;
            }
          },
          asio::detached);
    }
    f.asked = 64L * turns;
    f.run(4);
    f.check();
  }

  TEST_CASE("tasks on an asio_executor on four threads: no job is lost") {
    field f;
    asio_executor on{f.io};
    const int turns = stress::times_scale(stress::sanitized ? 500 : 5000);
    async_scope scope{{.executor = on}};
    const auto work = [&]() -> task<> {
      for (int i = 0; i != turns; ++i) {
        co_await f.cs.execute([&] { ++f.bodies; });
        ++f.ran;
        co_await yield();
      }
    };
    auto busy = asio::make_work_guard(f.io);
    for (int who = 0; who != 64; ++who) scope.spawn(work());
    const std::jthread end([&] {
      sync_wait(scope.join());
      busy.reset();
    });
    f.asked = 64L * turns;
    f.run(4);
    f.check();
  }
}
