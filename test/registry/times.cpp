// times.cpp - how long sections are waited for and held.

#include "stress/crew.hpp"
#include "support/foreign.hpp"
#include "support/gate.hpp"

#include <turnstile/turnstile.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <doctest/doctest.h>
#include <numeric>
#include <optional>
#include <stop_token>
#include <tuple>

using namespace turnstile;
using namespace std::chrono_literals;
using support::foreign;
using support::gate;

namespace {

void spend(std::chrono::nanoseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < until) {
  }
}

std::uint64_t in_buckets(const time_histogram& h) {
  return std::accumulate(h.buckets.begin(), h.buckets.end(), std::uint64_t{0});
}

foreign run_in(critical_section& cs) {
  co_await cs.execute([] {});
}

}  // namespace

TEST_SUITE("registry") {
  TEST_CASE("time_histogram: a bucket is a power of two") {
    CHECK(time_histogram::bucket_of(0ns) == 0);
    CHECK(time_histogram::bucket_of(1ns) == 1);
    CHECK(time_histogram::bucket_of(2ns) == 2);
    CHECK(time_histogram::bucket_of(3ns) == 2);
    CHECK(time_histogram::bucket_of(4ns) == 3);
    CHECK(time_histogram::bucket_of(1023ns) == 10);
    CHECK(time_histogram::bucket_of(1024ns) == 11);
    CHECK(time_histogram::bucket_of(-1ns) == 0);
    CHECK(time_histogram::bucket_of(std::chrono::hours(1000)) == time_histogram::bucket_count - 1);
  }

  TEST_CASE("time_histogram: a percentile is the end of the bucket that it falls into") {
    time_histogram h;
    CHECK(h.percentile(0.5) == 0ns);
    h.buckets[1] = 90;
    h.buckets[5] = 9;
    h.buckets[10] = 1;
    CHECK(h.percentile(0) == 1ns);
    CHECK(h.percentile(0.5) == 1ns);
    CHECK(h.percentile(0.9) == 1ns);
    CHECK(h.percentile(0.91) == 31ns);
    CHECK(h.percentile(0.99) == 31ns);
    CHECK(h.percentile(1) == 1023ns);
    CHECK(h.percentile(7) == 1023ns);
  }

  TEST_CASE("times: nothing is measured unless it is asked for") {
    critical_section cs;
    sync_wait(cs.execute([] {}));
    CHECK(registry::times(cs).wait.count == 0);
    CHECK(registry::times(cs).hold.count == 0);
  }

  TEST_CASE("times: every way of holding the section counts once") {
    critical_section cs{"timed"};
    registry::keep_times(cs);
    auto waits = []() -> task<> { co_await yield(); };
    thread_pool pool{1};
    sync_wait(cs.execute([] {}));
    sync_wait(cs.execute(waits));
    sync_wait(schedule_on(pool, cs.execute(waits)));
    sync_wait(cs.execute([] {}, {.resume_on = pool}));
    sync_wait(cs.lock()).unlock();
    sync_wait(cs.submit([] {}));
    CHECK(cs.try_execute([] {}));
    CHECK(cs.try_lock().has_value());
    CHECK_THROWS(sync_wait(cs.execute([] { throw 1; })));
    CHECK(cs.name() == "timed");
    const section_times t = registry::times(cs);
    CHECK(t.wait.count == 9);
    CHECK(t.hold.count == 9);
    CHECK(in_buckets(t.wait) == 9);
    CHECK(in_buckets(t.hold) == 9);
    CHECK(cs.statistics().executions == 9);
  }

  TEST_CASE("times: closing is no execution") {
    critical_section cs;
    registry::keep_times(cs);
    sync_wait(cs.close());
    CHECK(registry::times(cs).wait.count == 0);
    CHECK(registry::times(cs).hold.count == 0);
  }

  TEST_CASE("times: a body is held from its start to its end, and waited for by who is behind it") {
    critical_section cs;
    registry::keep_times(cs);
    gate g;
    bool over = false;
    auto body = [&]() -> task<> { co_await g; };
    const foreign first = support::await_in_foreign(cs.execute(body), over);
    const foreign second = run_in(cs);
    spend(1ms);
    g.open();
    CHECK(over);
    const section_times t = registry::times(cs);
    REQUIRE(t.wait.count == 2);
    REQUIRE(t.hold.count == 2);
    CHECK(t.hold.sum >= 1ms);
    CHECK(t.wait.sum >= 1ms);
    CHECK(t.hold.percentile(1) >= 1ms);
    CHECK(t.wait.percentile(1) >= 1ms);
  }

  TEST_CASE("times: who is set aside waits until its body begins, whatever its predicate said") {
    manual_executor here;
    async_scope scope{{.executor = here}};
    critical_section cs;
    registry::keep_times(cs);
    std::stop_source stop;
    bool open = false;
    const auto is_open = [&open] { return open; };
    // One makes its stand-in when it is set aside, and the other one has it from the beginning.
    scope.spawn(cs.execute_when(is_open, [] {}));
    scope.spawn([](critical_section& s, std::stop_token t) -> task<> {
      try {
        co_await s.execute_when([] { return false; }, [] {}, {.stop = t});
      } catch (const operation_cancelled&) {
      }
    }(cs, stop.get_token()));
    here.run();
    CHECK(cs.statistics().waiters == 2);
    CHECK(registry::times(cs).wait.count == 0);
    CHECK(registry::times(cs).hold.count == 0);
    spend(1ms);
    open = true;
    stop.request_stop();
    CHECK(cs.try_execute([] {}));
    here.run();
    sync_wait(scope.join());
    const section_times t = registry::times(cs);
    CHECK(cs.statistics().executions == 2);
    CHECK(t.wait.count == 2);
    CHECK(t.hold.count == 2);
    CHECK(t.wait.sum >= 1ms);
  }

  TEST_CASE("times: a request that ends without a body counts neither as a wait nor as a hold") {
    manual_executor here;
    async_scope scope{{.executor = here}};
    critical_section cs;
    registry::keep_times(cs);
    bool threw = false;
    scope.spawn([](critical_section& s, bool& failed) -> task<> {
      try {
        co_await s.execute_when([]() -> bool { throw 1; }, [] {});
      } catch (int) {
        failed = true;
      }
    }(cs, threw));
    here.run();
    sync_wait(scope.join());
    CHECK(threw);
    CHECK(registry::times(cs).wait.count == 0);
    CHECK(registry::times(cs).hold.count == 0);
  }

  TEST_CASE("times: a guard holds until it is unlocked") {
    critical_section cs;
    registry::keep_times(cs);
    section_guard g = sync_wait(cs.lock());
    spend(1ms);
    CHECK(registry::times(cs).hold.count == 0);
    g.unlock();
    CHECK(registry::times(cs).hold.count == 1);
    CHECK(registry::times(cs).hold.sum >= 1ms);
    CHECK(registry::times(cs).wait.count == 1);
  }

  TEST_CASE("times: switched off they stay, and a hold that was not seen whole does not count") {
    critical_section cs;
    section_guard g = sync_wait(cs.lock());
    registry::keep_times(cs);
    g.unlock();
    CHECK(registry::times(cs).hold.count == 0);
    g = sync_wait(cs.lock());
    registry::keep_times(cs, false);
    g.unlock();
    sync_wait(cs.execute([] {}));
    CHECK(registry::times(cs).hold.count == 0);
    registry::keep_times(cs);
    g = sync_wait(cs.lock());
    registry::keep_times(cs, false);
    registry::keep_times(cs);
    g.unlock();
    CHECK(registry::times(cs).hold.count == 0);
    sync_wait(cs.execute([] {}));
    CHECK(registry::times(cs).hold.count == 1);
  }

  TEST_CASE("times: of bound sections") {
    manual_executor loop;
    critical_section cs{section_options{.name = "bound", .executor = loop}};
    registry::keep_times(cs);
    cs.post([] {});
    cs.post([] {});
    loop.run();
    CHECK(registry::times(cs).wait.count == 2);
    CHECK(registry::times(cs).hold.count == 2);
  }

  TEST_CASE(
      "times: a section that one for several has entered, and left for another that is closed") {
    critical_section a;
    critical_section b;
    registry::keep_times(a);
    sync_wait(b.close());
    CHECK_THROWS_AS(sync_wait(execute(std::tie(a, b), [] {})), section_closed);
    CHECK(a.statistics().executions == 0);
    CHECK(registry::times(a).wait.count == 0);
    CHECK(registry::times(a).hold.count == 0);
    critical_section c;
    sync_wait(execute(std::tie(a, c), [] {}));
    CHECK(registry::times(a).wait.count == 1);
    CHECK(registry::times(a).hold.count == 1);
  }

  TEST_CASE("times: what was begun before they were switched off is not counted later") {
    critical_section cs;
    registry::keep_times(cs);
    std::optional<section_guard> guard = cs.try_lock();
    registry::keep_times(cs, false);
    guard->unlock();
    guard = cs.try_lock();
    registry::keep_times(cs);
    guard->unlock();
    CHECK(registry::times(cs).wait.count == 0);
    CHECK(registry::times(cs).hold.count == 0);
  }

  TEST_CASE("times: to ask for them once more changes nothing") {
    critical_section cs;
    registry::keep_times(cs);
    cs.execute_blocking([&] { registry::keep_times(cs); });
    CHECK(registry::times(cs).wait.count == 1);
    CHECK(registry::times(cs).hold.count == 1);
  }

  TEST_CASE("times: switched and read while four threads use the section") {
    constexpr int users = 4;
    constexpr int each = 2000;
    critical_section cs;
    int ran = 0;
    std::atomic<int> at_work{users};
    std::atomic<bool> wrong{false};
    stress::together(users + 1, [&](int who) {
      if (who == users) {
        for (int n = 0; at_work.load() != 0; ++n) {
          registry::keep_times(cs, n % 2 == 0);
          const section_times t = registry::times(cs);
          if (t.wait.count > users * each || in_buckets(t.hold) > users * each) wrong = true;
        }
        return;
      }
      for (int i = 0; i != each; ++i) sync_wait(cs.execute([&] { ++ran; }));
      at_work.fetch_sub(1);
    });
    CHECK_FALSE(wrong.load());
    CHECK(ran == users * each);
  }
}
