// pace.hpp - how fast bodies of sections run on a thread: is there work between them worth sharing?
//
// A thread whose coroutines do little but run bodies is brisk: no more than 200 ns a request beside
// serving. What it serves for others then stays with it, and other workers leave it alone, because
// a coroutine that runs elsewhere would bring the section's lines over and wait for its turn there,
// at several times the cost (bench/counter and lines against bench/think; bench/tried.md). What
// serving takes is the section's own time, which no second thread makes shorter; but of bodies
// longer than 2 us, which are handed back one by one, that cost is a small part, and what else
// waits for the thread would wait long.
//
// A guard that is handed from one coroutine to the next counts twice. It takes a thread that much
// longer, for nothing is served in a row, and costs more where it comes over (bench/tried.md).
//
// Coroutines that could be brisk on one thread need not look like it on two. What each serves goes
// back to the other, where it asks again, and each request comes over from there, in a line that
// never ends: that takes 100 to 300 ns, and where a line takes 150 ns from core to core up to 1000.
// Who does nothing but serve cannot be judged at all. So a thread takes itself for brisk now and
// then, for as long as it takes to bring a thousand coroutines over and to run each of them once
// there, which is slow too; others leave it alone as long as it has jobs. Then it is judged by what
// it has, and by whether the pool runs more bodies so (gathering.hpp); the more often in vain, the
// longer until it tries again. Whoever was brisk in two looks in a row may try soon: one alone says
// little, for where lines are far a thread looks brisk now and then, and each of those put off the
// trial that would have ended it.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

// What a thread has done ever.
struct work_done {
  std::uint32_t requests;
  std::uint64_t serving_ns;
  std::uint32_t served = 0;  // bodies; known to the thread itself
};

// Of those that were made here, or nearly: bodies that wait, and guards, count again where they
// end. A thread that serves others sees nothing of what they do in between.
inline work_done asked_here(const thread_state& t = here()) noexcept {
  return {t.bodies() - t.served + t.to_be_served, t.serving_ns, t.served};
}

// One thread of a pool tries at a time: of two, each would keep what the other one's trial needs.
class turn_to_try {
 public:
  // True: until then it is the caller's.
  [[nodiscard]] bool take(steady_clock::time_point now, steady_clock::time_point end) noexcept {
    std::int64_t until = until_ns_.load(relaxed);
    const std::int64_t mine = end.time_since_epoch().count();
    return until <= now.time_since_epoch().count() &&
           until_ns_.compare_exchange_strong(until, mine, relaxed, relaxed);
  }
  // By who has it.
  void keep(steady_clock::time_point end) noexcept {
    until_ns_.store(end.time_since_epoch().count(), relaxed);
  }

 private:
  atomic<std::int64_t> until_ns_{0};  // relaxed: nothing is read because of it
};

// Judges from what had been done when it looked.
class pace {
 public:
  // Long enough for some bodies; after the longest it would mix two phases.
  static constexpr std::chrono::microseconds shortest_look{20};
  static constexpr std::chrono::milliseconds longest_look{1};
  static constexpr std::chrono::nanoseconds longest_to_try{1000};  // of bodies: others wait long
  static constexpr std::chrono::nanoseconds most_beside{2000};     // a request that comes over
  static constexpr std::chrono::microseconds trial{500};
  static constexpr std::chrono::milliseconds shortest_pause{10};  // between trials
  static constexpr std::chrono::milliseconds longest_pause{160};

  static constexpr bool is_brisk(std::uint32_t requests, steady_clock::duration time,
                                 steady_clock::duration serving) noexcept {
    return requests * std::chrono::nanoseconds(200) >= time - serving &&
           requests * std::chrono::microseconds(2) >= time;
  }

  // The first look after a long time only begins.
  bool is_outdated(steady_clock::time_point now) const noexcept {
    return now - begun_ > longest_look;
  }
  void begin(const work_done& until_now, steady_clock::time_point now) noexcept {
    before_ = until_now;
    begun_ = now;
  }

  bool look(const work_done& until_now, steady_clock::time_point now) noexcept {
    const auto time = now - begun_;
    if (time > longest_look) {
      brisk_ = may_try_ = false;
      begin(until_now, now);
    } else if (time >= shortest_look) {
      const std::chrono::nanoseconds serving(until_now.serving_ns - before_.serving_ns);
      const bool was_brisk = brisk_;
      brisk_ = is_brisk(until_now.requests - before_.requests, time, serving);
      may_try_ = !brisk_ && has_to_try(until_now, time, serving);
      if (brisk_) trial_ends_ = now;
      if (brisk_ && was_brisk) {
        pause_ = shortest_pause;
        next_trial_ = std::min(next_trial_, now + trial);
      }
      begin(until_now, now);
    }
    return brisk_;
  }

  // By the thread itself, after look has said no: whether it tries what it cannot know, or is to.
  bool tries(steady_clock::time_point now) const noexcept { return now < trial_ends_; }
  bool may_try(steady_clock::time_point now) const noexcept {
    return may_try_ && now >= next_trial_;
  }
  void try_from(steady_clock::time_point now) noexcept {
    trial_ends_ = now + trial;
    next_trial_ = now + pause_;
    pause_ = std::min(2 * pause_, longest_pause);
  }
  steady_clock::time_point trial_ends() const noexcept { return trial_ends_; }
  // The trial is worth while, and goes on.
  void try_until(steady_clock::time_point end) noexcept { trial_ends_ = end; }
  // It is not.
  void give_up(steady_clock::time_point now) noexcept {
    trial_ends_ = now;
    next_trial_ = std::max(next_trial_, now + shortest_pause);
  }
  // It was, and is over: the next one does not wait long.
  void try_soon(steady_clock::time_point now) noexcept {
    trial_ends_ = now;
    next_trial_ = now + shortest_pause;
    pause_ = shortest_pause;
  }

  // For what takes less time than a look at the clock: as it was up to 15 times ago, however long
  // that is.
  bool look_seldom() noexcept {
    return ++times_ % 16 == 0 ? look(asked_here(), steady_clock::now()) : brisk_;
  }

 private:
  // Little beside requests, or beside serving, and short bodies, as far as it has seen any.
  bool has_to_try(const work_done& until_now, steady_clock::duration time,
                  std::chrono::nanoseconds serving) const noexcept {
    const auto beside = time - serving;
    const std::uint32_t requests = until_now.requests - before_.requests;
    const std::uint32_t served = until_now.served - before_.served;
    return (requests * most_beside >= beside || beside <= time / 4) && served != 0 &&
           served * longest_to_try >= serving;
  }

  steady_clock::time_point begun_{};
  work_done before_{};
  steady_clock::time_point next_trial_{};
  steady_clock::time_point trial_ends_{};
  std::chrono::milliseconds pause_ = shortest_pause;
  std::uint8_t times_ = 0;
  bool brisk_ = false;
  bool may_try_ = false;
};

// By which this thread judges itself. In lib/strand/section_core.cpp, whose drains look.
extern constinit thread_local pace this_pace;

}  // namespace turnstile::detail
