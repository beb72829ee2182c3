// keeping.cpp - sections that go to and fro between the threads that keep them and everybody else:
// bursts, short ones and long ones, on a few sections, among tries, guards, posts and coroutines;
// sections that end while they are kept, and threads that end while they keep.
//
// The data is plain variables: two bodies at once would leave them wrong, and the thread sanitizer
// would see it. A section that is left to nobody shows as a test that does not end.

#include "support/keeping.hpp"

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <doctest/doctest.h>
#include <latch>
#include <numeric>
#include <optional>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

using namespace turnstile;
using stress::dice;
using support::kept_here;

namespace {

constexpr unsigned n_places = 3;

// A section and what it guards.
class place {
 public:
  explicit place(std::size_t askers) : last_of_(askers) {}

  // What every body does; `nth` is how many its asker has asked here, and so rises.
  void visit(std::size_t who, std::uint64_t nth) noexcept {
    ++first_;
    if (first_ != second_ + 1) ++wrong_;
    if (last_of_[who] >= nth) ++out_of_order_;
    last_of_[who] = nth;
    ++second_;
  }

  critical_section cs;

  // After the end.
  std::uint64_t visits() const { return second_; }
  int wrong() const { return wrong_ + (first_ == second_ ? 0 : 1); }
  int out_of_order() const { return out_of_order_; }

 private:
  std::uint64_t first_ = 0;
  std::uint64_t second_ = 0;
  int wrong_ = 0;
  int out_of_order_ = 0;
  std::vector<std::uint64_t> last_of_;
};

class places {
 public:
  explicit places(std::size_t askers) {
    for (place*& p : all_) p = &room_.emplace_back(askers);
  }

  place& operator[](unsigned i) { return *all_[i]; }

  // Who found that a section was its own.
  void note(bool kept) noexcept {
    if (kept) kept_.fetch_add(1, std::memory_order_relaxed);
  }

  // All are over.
  void check(std::uint64_t asked) {
    std::uint64_t visits = 0;
    for (place* const p : all_) {
      // A posted body's thread leaves the section after the body, so this comes last.
      p->cs.execute_blocking([&] { visits += p->visits(); });
      CHECK(p->wrong() == 0);
      CHECK(p->out_of_order() == 0);
      CHECK(p->cs.statistics().executions == p->visits() + 1);
      CHECK(p->cs.statistics().waiters == 0);
      CHECK_FALSE(p->cs.statistics().held);
    }
    CHECK(visits == asked);
    CHECK((kept_.load() != 0) == support::can_be_kept());
  }

 private:
  std::deque<place> room_;
  std::array<place*, n_places> all_{};
  std::atomic<std::uint64_t> kept_{0};
};

// What an asker does besides: long enough that others meet the section kept, with nobody inside.
void do_something_else(dice& d) {
  volatile unsigned work = 0;
  for (unsigned n = d.below(2000); n != 0; --n) work = work + n;
}

// One thread, or one coroutine after the other on one thread.
class asker {
  // Asked now: whatever way it goes, it runs once.
  auto next(place& p) {
    return [at = &p, who = who_, nth = ++asked_] { at->visit(who, nth); };
  }

 public:
  asker(places& all, std::size_t who, std::uint32_t seed) : all_(&all), who_(who), dice_(seed) {}

  void burst() {
    place& p = (*all_)[dice_.below(n_places)];
    for (unsigned n = 1 + dice_.below(200); n != 0; --n) ask(p);
    all_->note(kept_here(p.cs));
    do_something_else(dice_);
  }

  task<> burst_of_a_coroutine() {
    place& p = (*all_)[dice_.below(n_places)];
    for (unsigned n = 1 + dice_.below(200); n != 0; --n) {
      auto body = next(p);
      co_await p.cs.execute(body);
    }
    all_->note(kept_here(p.cs));
    do_something_else(dice_);
    if (dice_.one_in(4)) {
      const section_guard g = co_await p.cs.lock();
      next(p)();
    }
    if (dice_.one_in(2)) co_await yield();
  }

  std::uint64_t asked() const noexcept { return asked_; }

 private:
  void ask(place& p) {
    if (!dice_.one_in(100)) return p.cs.execute_blocking(next(p));
    switch (dice_.below(7)) {
      case 0: return p.cs.post(next(p));
      case 1: return sync_wait(as_a_coroutine(p));
      case 2: return try_it(p);
      case 3: return with_a_guard(p);
      case 4: return from_inside_another(p);
      case 5: return withdrawable(p);
      default: return waits(p);
    }
  }

  task<> as_a_coroutine(place& p) {
    auto body = next(p);
    co_await p.cs.execute(body);
  }

  // What was not let in was not asked.
  void try_it(place& p) {
    if (!p.cs.try_execute(next(p))) --asked_;
    if (std::optional<section_guard> g = p.cs.try_lock()) next(p)();
  }

  void with_a_guard(place& p) {
    const auto locks = [&]() -> task<> {
      const section_guard g = co_await p.cs.lock();
      next(p)();
    };
    sync_wait(locks());
  }

  // Always in the same direction: nobody waits in a circle.
  void from_inside_another(place& p) {
    place& first = (*all_)[0];
    if (&first == &p) return p.cs.execute_blocking(next(p));
    auto inner = next(p);
    first.cs.execute_blocking([&, outer = next(first)] {
      outer();
      p.cs.execute_blocking(inner);
    });
  }

  void withdrawable(place& p) {
    std::stop_source stop;
    if (dice_.one_in(4)) stop.request_stop();
    try {
      p.cs.execute_blocking(next(p), {.stop = stop.get_token()});
    } catch (const operation_cancelled&) {
      --asked_;
    }
  }

  void waits(place& p) {
    p.cs.execute_blocking([body = next(p)]() -> task<> {
      co_await yield();
      body();
    });
  }

  places* all_;
  std::size_t who_;
  dice dice_;
  std::uint64_t asked_ = 0;
};

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("keeping: bursts of threads and of coroutines on a few sections") {
    const support::endless_optimism kept_each_time;
    const int bursts = stress::times_scale(stress::sanitized ? 100 : 1000);
    for (const int threads : {1, 2, 6}) {
      const int coroutines = 4;
      const auto n = static_cast<std::size_t>(threads + coroutines);
      places all(n);
      std::deque<asker> askers;
      for (std::size_t i = 0; i != n; ++i) {
        askers.emplace_back(all, i, static_cast<std::uint32_t>(i));
      }
      {
        thread_pool pool(2);
        async_scope scope{{.executor = pool}};
        const auto live = [bursts](asker& a) -> task<> {
          for (int i = 0; i != bursts; ++i) co_await a.burst_of_a_coroutine();
        };
        for (int i = 0; i != coroutines; ++i) {
          scope.spawn(live(askers[static_cast<std::size_t>(threads + i)]));
        }
        stress::together(threads, [&](int t) {
          for (int i = 0; i != bursts; ++i) askers[static_cast<std::size_t>(t)].burst();
        });
        sync_wait(scope.join());
      }
      std::uint64_t asked = 0;
      for (const asker& a : askers) asked += a.asked();
      all.check(asked);
    }
  }

  TEST_CASE("keeping: guards of kept sections, unlocked here and there") {
    const support::endless_optimism kept_each_time;
    const int bursts = stress::times_scale(stress::sanitized ? 40 : 400);
    constexpr int threads = 2;
    constexpr std::size_t coroutines = 4;
    constexpr std::size_t n = threads + coroutines;
    places all(n);
    std::array<std::uint64_t, n> asked{};
    std::atomic<std::uint64_t> unlocked_elsewhere{0};
    {
      thread_pool elsewhere(1);
      thread_pool pool(2);
      async_scope scope{{.executor = pool}};
      const auto unlock = [&](section_guard& g) -> task<> {
        g.unlock();
        unlocked_elsewhere.fetch_add(1, std::memory_order_relaxed);
        co_return;
      };
      const auto live = [&](std::size_t who) -> task<> {
        dice d(static_cast<std::uint32_t>(300 + who));
        for (int i = 0; i != bursts; ++i) {
          place& p = all[d.below(n_places)];
          for (unsigned left = 1 + d.below(200); left != 0; --left) {
            section_guard g = co_await p.cs.lock();
            p.visit(who, ++asked[who]);
            if (d.one_in(100)) co_await schedule_on(elsewhere, unlock(g));
          }
          all.note(kept_here(p.cs));
          do_something_else(d);
        }
      };
      for (std::size_t i = 0; i != coroutines; ++i) scope.spawn(live(threads + i));
      stress::together(threads, [&](int t) {
        const auto who = static_cast<std::size_t>(t);
        dice d(static_cast<std::uint32_t>(310 + who));
        for (int i = 0; i != bursts; ++i) {
          place& p = all[d.below(n_places)];
          for (unsigned left = 1 + d.below(50); left != 0; --left) {
            p.cs.execute_blocking([&] { p.visit(who, ++asked[who]); });
          }
          do_something_else(d);
        }
      });
      sync_wait(scope.join());
    }
    CHECK(unlocked_elsewhere.load() != 0);
    all.check(std::accumulate(asked.begin(), asked.end(), std::uint64_t{0}));
  }

  TEST_CASE("keeping: threads that end while they keep a section, and others that begin") {
    const support::endless_optimism kept_each_time;
    const int rounds = stress::times_scale(stress::sanitized ? 50 : 500);
    constexpr int at_once = 3;
    places all(at_once);
    std::deque<asker> askers;
    for (std::size_t i = 0; i != at_once; ++i) {
      askers.emplace_back(all, i, static_cast<std::uint32_t>(100 + i));
    }
    stress::together(at_once, [&](int t) {
      for (int i = 0; i != rounds; ++i) {
        std::thread([&a = askers[static_cast<std::size_t>(t)]] {
          for (int n = 0; n != 3; ++n) a.burst();
        }).join();
      }
    });
    std::uint64_t asked = 0;
    for (const asker& a : askers) asked += a.asked();
    all.check(asked);
  }

  TEST_CASE("keeping: sections that end while they are kept, and others in their place") {
    const support::endless_optimism kept_each_time;
    const int rounds = stress::times_scale(stress::sanitized ? 300 : 3000);
    constexpr int threads = 3;
    std::optional<place> room;  // the threads stay, and with them what they have kept there before
    int wrong = 0;
    int kept_by_its_end = 0;
    int kept_by_another = 0;
    std::array<detail::keeper*, threads> keepers{};
    std::atomic<std::uint64_t> asked{0};
    std::barrier step(threads);
    stress::together(threads, [&](int me) {
      dice d(static_cast<std::uint32_t>(200 + me));
      for (int r = 0; r != rounds; ++r) {
        const bool ends_it = r % threads == me;
        if (ends_it) {
          room.emplace(threads);
          asked = 0;
        }
        step.arrive_and_wait();
        const unsigned n = 1 + d.below(250);
        for (unsigned i = 1; i <= n; ++i) {
          room->cs.execute_blocking([&, i] { room->visit(static_cast<std::size_t>(me), i); });
        }
        asked += n;
        keepers[static_cast<std::size_t>(me)] = detail::here().keeps;
        step.arrive_and_wait();
        if (ends_it) {
          for (detail::keeper* const k : keepers) {
            if (!support::kept_by(*k, room->cs)) continue;
            ++(k == detail::here().keeps ? kept_by_its_end : kept_by_another);
          }
          if (room->visits() != asked || room->wrong() != 0 || room->out_of_order() != 0) ++wrong;
          if (room->cs.statistics().executions != asked || room->cs.statistics().held) ++wrong;
          room.reset();
        }
        step.arrive_and_wait();
      }
    });
    CHECK(wrong == 0);
    CHECK((kept_by_its_end != 0) == support::can_be_kept());
    CHECK((kept_by_another != 0) == support::can_be_kept());
  }

  TEST_CASE("keeping: a section that is only tried for is found idle by somebody") {
    const support::endless_optimism kept_each_time;
    const int rounds = stress::times_scale(stress::sanitized ? 120 : 1200);
    places all(2);
    place& p = all[0];
    std::atomic<bool> over{false};
    std::latch kept_at_first(1);  // who tries all the time may leave no time for that
    std::uint64_t tried = 0;
    stress::together(2, [&](int t) {
      if (t == 0) {
        std::uint64_t nth = 0;
        for (int i = 0; i != rounds; ++i) {
          for (int n = 0; n != 2 * support::enough_bodies; ++n) {
            p.cs.execute_blocking([&p, at = ++nth] { p.visit(0, at); });
          }
          all.note(kept_here(p.cs));
          if (i == 0) kept_at_first.count_down();
        }
        over = true;
      } else {
        kept_at_first.wait();
        while (!over) {
          if (p.cs.try_execute([&] { p.visit(1, tried + 1); })) ++tried;
        }
      }
    });
    // Nobody is inside any more, so whoever tries gets in.
    CHECK(p.cs.try_execute([&] { p.visit(1, tried + 1); }));
    all.check(static_cast<std::uint64_t>(rounds) * 2 * support::enough_bodies + tried + 1);
  }

  TEST_CASE("keeping: who measures a section that is kept misses nothing") {
    const support::endless_optimism kept_each_time;
    const int rounds = stress::times_scale(stress::sanitized ? 100 : 1000);
    critical_section cs;
    std::atomic<bool> over{false};
    std::atomic<std::uint64_t> ran{0};
    int kept = 0;
    int missed = 0;
    stress::together(2, [&](int t) {
      if (t == 0) {
        while (!over) {
          for (int i = 0; i != 100; ++i) cs.execute_blocking([&] { ++ran; });
          if (kept_here(cs)) ++kept;
        }
        return;
      }
      const auto let_pass = [&](std::uint64_t n) {
        for (const std::uint64_t end = ran + n; ran < end;) std::this_thread::yield();
      };
      for (int i = 0; i != rounds; ++i) {
        let_pass(300);
        registry::keep_times(cs);
        const std::uint64_t measured = registry::times(cs).hold.count;
        const std::uint64_t before = ran;
        let_pass(10);
        cs.execute_blocking([&] {
          // One may have been under way, and have looked before.
          if (registry::times(cs).hold.count - measured + 1 < ran - before) ++missed;
        });
        registry::keep_times(cs, false);
      }
      over = true;
    });
    CHECK(missed == 0);
    CHECK((kept != 0) == support::can_be_kept());
    CHECK(cs.statistics().executions == ran + static_cast<std::uint64_t>(rounds));
  }

  TEST_CASE("keeping: no body runs while recording is switched on, also where jobs run at once") {
    struct at_once {
      void post(job& j) noexcept { j.run(); }
    };
    const support::endless_optimism kept_each_time;
    const int rounds = stress::times_scale(stress::sanitized ? 200 : 5000);
    at_once in_place;
    critical_section cs;
    std::atomic<bool> over{false};
    int served = 0;
    stress::together(3, [&](int t) {
      dice d(static_cast<std::uint32_t>(t));
      if (t == 0) {
        for (int i = 0; i != rounds; ++i) {
          registry::keep_executions(1);
          registry::keep_executions(0);
          for (int n = 0; n != 100; ++n) do_something_else(d);
        }
        over = true;
      } else if (t == 1) {
        while (!over) {
          support::come_back_to(cs);
          for (int n = 0; n != 20; ++n) do_something_else(d);
        }
      } else {
        // It would wait for the very look that it runs in.
        const auto looks = [&]() -> task<> {
          co_await cs.execute([&] {
            ++served;
            static_cast<void>(registry::sections());
          });
        };
        while (!over) {
          sync_wait(schedule_on(in_place, looks()));
          do_something_else(d);
        }
      }
    });
    CHECK(served != 0);
    CHECK(cs.statistics().waiters == 0);
  }
}
