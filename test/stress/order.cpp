// order.cpp - one order of acceptance, across threads.
//
// A request gets a stamp before it is made and one after it was accepted, from one clock. If one
// was accepted before another was made, it has to run first: that is all that can be seen from
// outside of a first come, first served order, and it includes that each thread's requests keep
// theirs.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <doctest/doctest.h>
#include <memory>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

struct record {
  std::uint64_t made;
  std::uint64_t accepted;
};

class journal {
 public:
  explicit journal(std::size_t n) { ran_.reserve(n); }

  std::uint64_t stamp() noexcept { return clock_.fetch_add(1); }
  // In a body: plain, one after the other.
  void run(const record& r) { ran_.push_back(&r); }

  std::size_t size() const { return ran_.size(); }
  // How many ran although one that was made after they were accepted had run already.
  std::size_t overtaken() const {
    std::size_t n = 0;
    std::uint64_t latest_made = 0;
    for (const record* r : ran_) {
      if (r->accepted < latest_made) ++n;
      latest_made = std::max(latest_made, r->made);
    }
    return n;
  }

 private:
  std::atomic<std::uint64_t> clock_{1};
  std::vector<const record*> ran_;
};

// Without an executor, spawn comes back when the request is in line or has been served.
task<> ask(critical_section& cs, journal& j, record& r) {
  r.made = j.stamp();
  co_await cs.execute([&] { j.run(r); });
}

task<> ask_with_a_guard(critical_section& cs, journal& j, record& r) {
  r.made = j.stamp();
  auto guard = co_await cs.lock();
  j.run(r);
  guard.unlock();
}

task<> ask_with_a_task(critical_section& cs, journal& j, record& r) {
  auto body = [&]() -> task<> {
    j.run(r);
    co_return;
  };
  r.made = j.stamp();
  co_await cs.execute(body);
}

void ask_somehow(dice& d, critical_section& cs, async_scope& scope, journal& j, record& r) {
  switch (d.below(5)) {
    case 0: scope.spawn(ask(cs, j, r)); break;
    case 1: scope.spawn(ask_with_a_guard(cs, j, r)); break;
    case 2: scope.spawn(ask_with_a_task(cs, j, r)); break;
    case 3:
      r.made = j.stamp();
      cs.post([&] { j.run(r); });
      break;
    case 4:
      r.made = j.stamp();
      static_cast<void>(cs.submit([&] { j.run(r); }));
      break;
  }
  r.accepted = j.stamp();
}

void check_order(section_options options, int threads, int each) {
  const auto n = static_cast<std::size_t>(threads) * static_cast<std::size_t>(each);
  journal j(n);
  std::vector<record> records(n);
  {
    critical_section cs(options);
    async_scope scope;
    stress::together(threads, [&](int id) {
      dice d(static_cast<std::uint32_t>(id));
      for (int i = 0; i != each; ++i) {
        ask_somehow(d, cs, scope, j, records[static_cast<std::size_t>(id * each + i)]);
      }
    });
    sync_wait(scope.join());
    sync_wait(cs.close());
  }
  CHECK(j.size() == n);
  CHECK(j.overtaken() == 0);
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("order: first come, first served, across threads and kinds of requests") {
    const int each = stress::times_scale(stress::sanitized ? 500 : 5000);
    for (const std::size_t cells : {1, 8, 64}) {
      for (const int threads : {2, 5, 8}) {
        CAPTURE(cells);
        CAPTURE(threads);
        check_order({.ring_capacity = cells}, threads, each);
      }
    }
  }

  TEST_CASE("order: the same where bodies run only on an executor") {
    const int each = stress::times_scale(stress::sanitized ? 500 : 5000);
    thread_pool pool(2);
    for (const int threads : {2, 5}) check_order({.executor = pool}, threads, each);
  }
}
