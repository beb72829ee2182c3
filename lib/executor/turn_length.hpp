// turn_length.hpp - how many bodies a coroutine that need not suspend runs before others have its worker.
//
// As many as a drain's budget, if they and what lies between them are over within 8 us; where that takes longer,
// fewer. Of 32 coroutines on a worker each waits for the turns of the other 31: with a microsecond of work beside each
// body, turns of 32 bodies are 2 ms of waiting (README.md, Decisions).
//
// A turn is measured that begins as another one ends, with one job between the two ends, so that it is a whole turn and
// nothing else. The clock costs as much as five short bodies: turns that are far from too long are measured only
// when somebody says so.
#pragma once

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

// Of a worker, by its own thread.
class turn_length {
 public:
  static constexpr std::chrono::nanoseconds most_time = std::chrono::microseconds(8);

  void measure() noexcept { measures_ = true; }
  bool measures() const noexcept { return measures_; }

  // A turn of so many bodies ends, and others have the worker. How many the next ones have. `jobs`: that the worker
  // has begun; wraps.
  std::uint8_t after(std::uint8_t bodies, std::uint32_t jobs, steady_clock::time_point now) noexcept {
    const bool is_whole = jobs - jobs_ == 1;
    const steady_clock::duration took = std::max(now - ended_, steady_clock::duration(1));
    jobs_ = jobs;
    ended_ = now;
    if (!is_whole) return bodies;
    const std::int64_t fit = most_time * bodies / took;
    measures_ = fit < 4 * bodies_in_a_turn;
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(fit, 1, bodies_in_a_turn));
  }

 private:
  bool measures_ = true;
  std::uint32_t jobs_ = 0;  // when the last one ended
  steady_clock::time_point ended_{};
};

}  // namespace turnstile::detail
