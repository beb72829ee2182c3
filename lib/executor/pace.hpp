// pace.hpp - how fast bodies of sections run on a thread: is there work between them worth sharing?
//
// A thread whose coroutines do little but run bodies is brisk: one body every 200 ns or faster. What it
// serves for others then stays with it, and idle workers leave it alone, because a coroutine that runs
// elsewhere would bring the section's lines over and wait for its turn there, at several times the
// cost (bench/counter against bench/think; README.md, Decisions).
#pragma once

#include <turnstile/detail/threads.hpp>

#include <chrono>
#include <cstdint>

namespace turnstile::detail {

// Judges from how many bodies had run when it looked.
class pace {
 public:
  // Long enough for several turns of 32 bodies; after the longest it would mix two phases.
  static constexpr std::chrono::microseconds shortest_look{20};
  static constexpr std::chrono::milliseconds longest_look{1};

  static constexpr bool is_brisk(std::uint32_t bodies, steady_clock::duration time) noexcept {
    return bodies * std::chrono::nanoseconds(200) >= time;
  }

  // The first look after a long time only begins.
  bool is_outdated(steady_clock::time_point now) const noexcept {
    return now - begun_ > longest_look;
  }
  void begin(std::uint32_t bodies, steady_clock::time_point now) noexcept {
    bodies_ = bodies;
    begun_ = now;
  }

  bool look(std::uint32_t bodies, steady_clock::time_point now) noexcept {
    const auto time = now - begun_;
    if (time > longest_look) {
      brisk_ = false;
      begin(bodies, now);
    } else if (time >= shortest_look) {
      brisk_ = is_brisk(bodies - bodies_, time);
      begin(bodies, now);
    }
    return brisk_;
  }

 private:
  steady_clock::time_point begun_{};
  std::uint32_t bodies_ = 0;
  bool brisk_ = false;
};

}  // namespace turnstile::detail
