// histories.cpp - rounds of everything at once, on atomics with delays; each is checked afterwards.
//
// history.hpp says what is checked, delays.hpp what is disturbed. In each round some sections are
// closed amid the requests, and others are destroyed by whoever gets the last result.

#include "stress/crew.hpp"
#include "stress/delays.hpp"
#include "stress/dice.hpp"
#include "stress/history.hpp"
#include "stress/stall.hpp"

#include <turnstile/turnstile.hpp>

#include <cstdint>
#include <cstdio>
#include <deque>
#include <doctest/doctest.h>
#include <optional>
#include <span>
#include <vector>

using namespace turnstile;
using stress::dice;
using stress::kind;
using stress::outcome;
using stress::record;

namespace {

struct thrown_by_body {
  std::uint64_t value;
};

// A section with what it protects, which outlives it.
struct place {
  stress::ledger data;
  critical_section* cs = nullptr;
  bool doomed = false;  // destroyed after the last result, never closed
  std::uint64_t requests = 0;

  bool is_last(const record& r) const { return doomed && r.sequence + 1 == requests; }
};

struct answer {
  outcome how;
  std::uint64_t got = 0;
};

// The requests of one round, and how each kind of them is made.
class arena {
 public:
  std::deque<place> places;
  std::vector<record> records;

  // `records` says what is to be done.
  task<> ask(record& r) {
    begin(r);
    try {
      const answer a = co_await answer_to(r);
      end(r, a);
    } catch (const thrown_by_body& thrown) {
      end(r, {outcome::threw, thrown.value});
    } catch (const section_closed&) {
      end(r, {outcome::refused});
    }
    if (place_of(r).is_last(r)) delete place_of(r).cs;
    // What would have been asked inside is asked by itself.
    if (r.what == kind::nested && r.end == outcome::refused) co_await ask((&r)[1]);
  }

  task<> ask_all(std::span<record> mine) {
    for (std::size_t i = 0; i < mine.size(); i += asked_by(mine[i])) {
      co_await ask(mine[i]);
      if (mine[i].given % 2 == 0) co_await yield();
    }
  }

  // Without waiting for results: what is spawned without an executor is in line, or over,
  // afterwards.
  void start_all(std::span<record> mine, async_scope& scope) {
    for (std::size_t i = 0; i < mine.size(); i += asked_by(mine[i])) {
      scope.spawn(ask(mine[i]));
      in_line(mine[i]);
    }
  }

 private:
  // How many requests, with those inside its body.
  static std::size_t asked_by(const record& r) {
    return r.what == kind::nested ? 1 + asked_by((&r)[1]) : 1;
  }

  place& place_of(const record& r) { return places[r.section]; }

  static void begin(record& r) {
    r.invoked = stress::stamp();
    stress::expect_claim(&r);
  }
  static void in_line(record& r) {
    if (r.accepted == 0) r.accepted = stress::stamp();
  }
  static void end(record& r, answer a) {
    if (a.how != outcome::posted) r.responded = stress::stamp();
    r.got = a.got;
    r.end = a.how;
  }

  task<answer> answer_to(record& r) {
    place& p = place_of(r);
    switch (r.what) {
      case kind::plain: return by_execute(p, r);
      case kind::throwing: return by_throwing(p, r);
      case kind::waiting: return by_waiting(p, r);
      case kind::throwing_later: return by_throwing_later(p, r);
      case kind::nested: return by_nested(p, r);
      case kind::guard: return by_guard(p, r);
      case kind::handle: return by_handle(p, r);
      case kind::post: return by_post(p, r);
      case kind::tried: return by_trying(p, r);
      case kind::tried_guard: return by_trying_to_lock(p, r);
      case kind::close: break;
    }
    return by_closing(p);
  }

  // The bodies.

  static std::uint64_t run(place& p, record& r) {
    p.data.enter(r);
    const std::uint64_t before = p.data.value();
    stress::delay();
    const std::uint64_t result = p.data.run(r, before);
    p.data.leave(r);
    return result;
  }

  static task<std::uint64_t> run_and_yield(place& p, record& r) {
    p.data.enter(r);
    const std::uint64_t before = p.data.value();
    for (auto n = r.given % 3; n != 0; --n) co_await yield();
    const std::uint64_t result = p.data.run(r, before);
    p.data.leave(r);
    co_return result;
  }

  // The requests.

  static task<answer> by_execute(place& p, record& r) {
    auto body = [&] { return run(p, r); };
    const std::uint64_t got = co_await p.cs->execute(body);
    co_return answer{outcome::returned, got};
  }

  static task<answer> by_throwing(place& p, record& r) {
    auto body = [&] { throw thrown_by_body{run(p, r)}; };
    co_await p.cs->execute(body);
    co_return answer{outcome::returned};  // without the value, which is noticed
  }

  static task<answer> by_waiting(place& p, record& r) {
    auto body = [&] { return run_and_yield(p, r); };
    const std::uint64_t got = co_await p.cs->execute(body);
    co_return answer{outcome::returned, got};
  }

  static task<answer> by_throwing_later(place& p, record& r) {
    auto body = [&]() -> task<> {
      const std::uint64_t result = co_await run_and_yield(p, r);
      throw thrown_by_body{result};
    };
    co_await p.cs->execute(body);
    co_return answer{outcome::returned};
  }

  task<answer> by_nested(place& p, record& r) {
    auto body = [&]() -> task<std::uint64_t> {
      p.data.enter(r);
      const std::uint64_t before = p.data.value();
      co_await ask((&r)[1]);
      const std::uint64_t result = p.data.run(r, before);
      p.data.leave(r);
      co_return result;
    };
    const std::uint64_t got = co_await p.cs->execute(body);
    co_return answer{outcome::returned, got};
  }

  static task<answer> by_guard(place& p, record& r) {
    auto guard = co_await p.cs->lock();
    const std::uint64_t result = co_await run_and_yield(p, r);
    guard.unlock();
    co_return answer{outcome::returned, result};
  }

  static task<answer> by_handle(place& p, record& r) {
    auto handle = p.cs->submit([&p, &r] { return run(p, r); });
    in_line(r);
    if (r.given % 3 == 0) co_await yield();
    const std::uint64_t got = co_await handle;
    co_return answer{outcome::returned, got};
  }

  static task<answer> by_post(place& p, record& r) {
    p.cs->post([&p, &r] { static_cast<void>(run(p, r)); });
    in_line(r);
    co_return answer{outcome::posted};
  }

  static task<answer> by_trying(place& p, record& r) {
    const auto got = p.cs->try_execute([&] { return run(p, r); });
    stress::expect_claim(nullptr);
    if (!got) co_return answer{outcome::not_idle};
    co_return answer{outcome::returned, *got};
  }

  static task<answer> by_trying_to_lock(place& p, record& r) {
    auto guard = p.cs->try_lock();
    stress::expect_claim(nullptr);
    if (!guard) co_return answer{outcome::not_idle};
    const std::uint64_t result = co_await run_and_yield(p, r);
    guard->unlock();
    co_return answer{outcome::returned, result};
  }

  static task<answer> by_closing(place& p) {
    co_await p.cs->close();
    co_return answer{outcome::returned, p.data.ran()};
  }
};

// --- one round ----------------------------------------------------------------------------------

kind any_kind(dice& d, bool doomed) {
  static constexpr kind anywhere[] = {kind::plain,          kind::plain, kind::throwing,
                                      kind::waiting,        kind::guard, kind::handle,
                                      kind::throwing_later, kind::nested};
  static constexpr kind if_it_is_closed[] = {kind::post, kind::post, kind::tried,
                                             kind::tried_guard};
  if (doomed || !d.one_in(3)) return anywhere[d.below(8)];
  return d.one_in(20) ? kind::close : if_it_is_closed[d.below(4)];
}

class one_round {
 public:
  explicit one_round(std::uint32_t number) : dice_(number), pool_(2 + dice_.below(4)) {
    static constexpr std::uint32_t rough[] = {0, 4, 32};
    stress::use({.rough = rough[dice_.below(3)], .one_claim_in = 2u << (2 * dice_.below(3))});
    for (unsigned n = 1 + dice_.below(3); n != 0; --n) open_section();
    plan();
  }

  void run() {
    async_scope on_pool({.executor = pool_});
    async_scope anywhere;
    std::size_t next = 0;
    const auto mine = [&] { return part(next++); };
    for (; next != coroutines_;) on_pool.spawn(arena_.ask_all(mine()));
    stress::together(static_cast<int>(threads_), [&](int t) {
      const auto records = part(coroutines_ + static_cast<std::size_t>(t));
      if (t % 2 == 0) {
        sync_wait(arena_.ask_all(records));
      } else {
        arena_.start_all(records, anywhere);
      }
    });
    sync_wait(on_pool.join());
    sync_wait(anywhere.join());
    close_sections();
  }

  const std::vector<record>& records() const { return arena_.records; }

 private:
  void open_section() {
    static constexpr std::size_t capacities[] = {1, 2, 8, 64};
    section_options options{.ring_capacity = capacities[dice_.below(4)]};
    if (dice_.one_in(3)) options.executor = pool_;
    place& p = arena_.places.emplace_back();
    p.cs = new critical_section(options);
    p.doomed = dice_.one_in(2);
  }

  // Who asks for what. A request inside another one's body goes to a later section, so that nobody
  // waits in a circle.
  void plan() {
    for (std::size_t i = 0; i != (coroutines_ + threads_) * each_; ++i) {
      const bool inside = i % each_ != 0 && arena_.records[i - 1].what == kind::nested;
      const unsigned lowest = inside ? arena_.records[i - 1].section + 1 : 0;
      add_request(lowest + dice_.below(sections() - lowest), (i + 1) % each_ != 0);
    }
    for (unsigned s = 0; s != sections(); ++s) {
      place& p = arena_.places[s];
      if (p.doomed && p.requests == 0) delete p.cs;
      if (!p.doomed) add(s, kind::close);
    }
  }

  void add_request(unsigned section, bool another_follows) {
    kind what = any_kind(dice_, arena_.places[section].doomed);
    const bool may_nest = another_follows && section + 1 != sections();
    if (what == kind::nested && !may_nest) what = kind::waiting;
    add(section, what);
  }

  void add(unsigned section, kind what) {
    record r;
    r.id = static_cast<std::uint32_t>(arena_.records.size());
    r.section = section;
    r.what = what;
    r.given = dice_.below(1'000'000'000);
    arena_.records.push_back(r);
    ++arena_.places[section].requests;
  }

  void close_sections() {
    for (record& r : std::span(arena_.records).subspan((coroutines_ + threads_) * each_)) {
      sync_wait(arena_.ask(r));
      delete arena_.places[r.section].cs;
    }
  }

  std::span<record> part(std::size_t client) {
    return std::span(arena_.records).subspan(client * each_, each_);
  }
  unsigned sections() const { return static_cast<unsigned>(arena_.places.size()); }

  dice dice_;
  thread_pool pool_;
  const std::size_t coroutines_ = 2 + dice_.below(5);
  const std::size_t threads_ = 1 + dice_.below(4);
  const std::size_t each_ = 5 + dice_.below(40);
  arena arena_;
};

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("histories: every round could have been one body after the other, in line") {
    stress::length_of_run length(stress::sanitized ? 300 : 800);
    std::uint64_t executions = 0;
    std::uint32_t rounds = 0;
    for (; length.goes_on(); ++rounds) {
      one_round one(rounds);
      CAPTURE(rounds);
      {
        const stress::stall_alarm alarm(one.records());
        one.run();
      }
      REQUIRE(stress::first_violation(one.records()) == "");
      for (const record& r : one.records()) executions += r.runs;
    }
    const stress::delay_counts d = stress::counted_delays();
    std::printf("%llu executions in %u rounds checked\n",
                static_cast<unsigned long long>(executions), rounds);
    if constexpr (stress::has_tickets) {
      std::printf("%llu claims held up, %llu times parked, %llu taken over\n",
                  static_cast<unsigned long long>(d.held_up),
                  static_cast<unsigned long long>(d.parked),
                  static_cast<unsigned long long>(d.taken_over));
      CHECK(d.held_up > 0);
      CHECK(d.parked > 0);
      CHECK(d.taken_over == d.parked);
    }
  }
}
