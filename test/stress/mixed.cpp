// mixed.cpp - everything at once: kinds of bodies, guards, handles, nested sections, thread hops,
// on pools, loops and plain threads, with more threads than cores.
//
// A section's data is plain variables. Two bodies at once would leave them wrong, and the thread
// sanitizer would see it.

#include "stress/crew.hpp"
#include "stress/dice.hpp"

#include <turnstile/turnstile.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <doctest/doctest.h>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace turnstile;
using stress::dice;

namespace {

struct thrown_by_body : std::runtime_error {
  thrown_by_body() : std::runtime_error("by a body") {}
};

class place {
 public:
  explicit place(section_options options) : cs(options) {}

  // What every body does at its begin and its end.
  void enter() noexcept {
    if (inside_) ++wrong_;
    inside_ = true;
  }
  void leave() noexcept {
    inside_ = false;
    ++ran_;
  }
  void visit() noexcept {
    enter();
    leave();
  }

  critical_section cs;
  std::atomic<std::uint64_t> asked{0};

  // After the end.
  std::uint64_t ran() const { return ran_; }
  int wrong() const { return wrong_; }

 private:
  bool inside_ = false;
  std::uint64_t ran_ = 0;
  int wrong_ = 0;
};

// Executors that run by themselves; a loop's jobs are run by a thread of its own.
struct executors {
  thread_pool two{2};
  thread_pool four{4};
  manual_executor loop;
  std::atomic<bool> over{false};
  std::jthread runs_loop{[this] {
    while (!over || loop.pending() != 0) {
      if (!loop.run_one()) std::this_thread::yield();
    }
  }};

  ~executors() { over = true; }

  executor_ref any(dice& d) {
    switch (d.below(3)) {
      case 0: return two;
      case 1: return four;
      default: return loop;
    }
  }
};

class world {
 public:
  explicit world(dice& d) {
    for (int i = 0; i != 6; ++i) {
      section_options options{.ring_capacity = std::size_t{1} << d.below(7)};
      if (d.one_in(3)) options.executor = on.any(d);
      places.emplace_back(options);
    }
  }

  executors on;
  std::deque<place> places;
};

// Sections are entered in rising order only, so that nobody waits in a circle.
class client {
 public:
  client(world& w, std::uint32_t who) : world_(&w), dice_(who) {}

  task<> live(int steps) {
    for (int i = 0; i != steps; ++i) co_await step(0);
  }

 private:
  task<> step(std::size_t lowest) {
    const std::size_t i = lowest + dice_.below(static_cast<unsigned>(count() - lowest));
    place& p = world_->places[i];
    ++p.asked;
    switch (dice_.below(10)) {
      case 0: return throwing(p);
      case 1: return throwing_later(p);
      case 2: return waiting(p, i);
      case 3: return guarded(p, i);
      case 4: return submitted(p);
      case 5: return posted(p);
      case 6: return tried(p);
      case 7: return hopping(p);
      case 8: return moved_guard(p);
      default: return plain(p);
    }
  }

  task<> plain(place& p) {
    co_await p.cs.execute([&p] { p.visit(); });
  }

  task<> throwing(place& p) {
    try {
      co_await p.cs.execute([&p] {
        p.visit();
        throw thrown_by_body();
      });
      ++p.asked;  // which would be noticed at the end
    } catch (const thrown_by_body&) {
    }
  }

  task<> throwing_later(place& p) {
    auto body = [&p]() -> task<int> {
      p.enter();
      co_await yield();
      p.leave();
      throw thrown_by_body();
      co_return 0;
    };
    try {
      co_await p.cs.execute(body);
      ++p.asked;
    } catch (const thrown_by_body&) {
    }
  }

  task<> waiting(place& p, std::size_t i) {
    auto body = [this, &p, i]() -> task<> {
      p.enter();
      co_await something_inside(i);
      p.leave();
    };
    co_await p.cs.execute(body);
  }

  task<> guarded(place& p, std::size_t i) {
    auto guard = co_await p.cs.lock({.resume_on = where()});
    p.enter();
    co_await something_inside(i);
    p.leave();
  }

  // The guard is unlocked on some other thread.
  task<> moved_guard(place& p) {
    auto guard = co_await p.cs.lock();
    p.visit();
    guard.detach();
    co_await schedule_on(world_->on.any(dice_), unlock(std::move(guard)));
  }
  static task<> unlock(section_guard guard) {
    guard.unlock();
    co_return;
  }

  task<> submitted(place& p) {
    auto handle = p.cs.submit([&p] { p.visit(); });
    if (dice_.one_in(2)) co_await yield();
    if (dice_.one_in(2)) co_await handle;
  }

  task<> posted(place& p) {
    p.cs.post([&p] { p.visit(); });
    co_return;
  }

  task<> tried(place& p) {
    if (dice_.one_in(2)) {
      if (!p.cs.try_execute([&p] { p.visit(); })) --p.asked;
    } else if (auto guard = p.cs.try_lock()) {
      p.visit();
    } else {
      --p.asked;
    }
    co_return;
  }

  task<> hopping(place& p) {
    co_await p.cs.execute([&p] { p.visit(); }, {.resume_on = world_->on.any(dice_)});
    co_await schedule_on(world_->on.any(dice_), yield());
  }

  // While place `i` is held: wait, hop, or go on to a higher one.
  task<> something_inside(std::size_t i) {
    switch (dice_.below(4)) {
      case 0: co_await yield(); break;
      case 1: co_await schedule_on(world_->on.any(dice_), yield()); break;
      case 2:
        if (i + 1 < count()) co_await step(i + 1);
        break;
      default: break;
    }
  }

  executor_ref where() { return dice_.one_in(4) ? world_->on.any(dice_) : executor_ref{}; }
  std::size_t count() const { return world_->places.size(); }

  world* world_;
  dice dice_;
};

task<> live(world& w, std::uint32_t who, int steps) {
  client c(w, who);
  co_await c.live(steps);
}

void run_clients(world& w, int clients, int steps) {
  async_scope on_two({.executor = w.on.two});
  async_scope on_four({.executor = w.on.four});
  async_scope on_loop({.executor = w.on.loop});
  async_scope* const all[] = {&on_two, &on_four, &on_loop};
  for (int c = 0; c != clients; ++c)
    all[c % 3]->spawn(live(w, static_cast<std::uint32_t>(c), steps));
  stress::together(
      3, [&](int t) { sync_wait(live(w, 1000u + static_cast<std::uint32_t>(t), steps)); });
  for (async_scope* const scope : all) sync_wait(scope->join());
}

}  // namespace

TEST_SUITE("stress") {
  TEST_CASE("mixed: every body runs once and alone, and everybody comes back") {
    const int rounds = stress::times_scale(5);
    dice d(5);
    for (int i = 0; i != rounds; ++i) {
      world w(d);
      run_clients(w, 24, stress::sanitized ? 100 : 600);
      for (place& p : w.places) {
        sync_wait(p.cs.close());
        CHECK(p.ran() == p.asked);
        CHECK(p.wrong() == 0);
      }
    }
  }
}
