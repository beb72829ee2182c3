// pace.hpp - how fast bodies of sections run on a thread: is there work between them worth sharing?
//
// A thread whose coroutines do little but run bodies is brisk: no more than 200 ns a request beside serving. What it
// serves for others then stays with it, and other workers leave it alone, because a coroutine that runs
// elsewhere would bring the section's lines over and wait for its turn there, at several times the
// cost (bench/counter and lines against bench/think; README.md, Decisions). What serving takes is the section's own
// time, which no second thread makes shorter; but of bodies longer than 2 us, which are handed back one by one, that
// cost is a small part, and what else waits for the thread would wait long.
#pragma once

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <chrono>
#include <cstdint>

namespace turnstile::detail {

// What a thread has done ever.
struct work_done {
  std::uint32_t requests;
  std::uint64_t serving_ns;
};

// Of those that were made here, or nearly: bodies that wait, and guards, count again where they end. A thread that
// serves others sees nothing of what they do in between.
inline work_done asked_here(const thread_state& t = here()) noexcept {
  return {t.bodies() - t.served + t.to_be_served, t.serving_ns};
}

// Judges from what had been done when it looked.
class pace {
 public:
  // Long enough for some bodies; after the longest it would mix two phases.
  static constexpr std::chrono::microseconds shortest_look{20};
  static constexpr std::chrono::milliseconds longest_look{1};

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
      brisk_ = false;
      begin(until_now, now);
    } else if (time >= shortest_look) {
      const std::chrono::nanoseconds serving(until_now.serving_ns - before_.serving_ns);
      brisk_ = is_brisk(until_now.requests - before_.requests, time, serving);
      begin(until_now, now);
    }
    return brisk_;
  }

  // For what takes less time than a look at the clock: as it was up to 15 times ago, however long that is.
  bool look_seldom() noexcept {
    return ++times_ % 16 == 0 ? look(asked_here(), steady_clock::now()) : brisk_;
  }

 private:
  steady_clock::time_point begun_{};
  work_done before_{};
  std::uint8_t times_ = 0;
  bool brisk_ = false;
};

}  // namespace turnstile::detail
