// turn_length.hpp - how many bodies a coroutine that need not suspend runs before others have its
// worker.
//
// As many as a drain's budget, if they and what lies between them are over within 8 us; where that
// takes longer, fewer. Of 32 coroutines on a worker each waits for the turns of the other 31: with
// a microsecond of work beside each body, turns of 32 bodies are 2 ms of waiting (bench/tried.md).
//
// What is measured is a job from its start to the end of a turn, by the bodies that were run
// meanwhile. The clock costs as much as five short bodies. So a turn that ends unmeasured has the
// next few jobs looked at, one of which may be its like; and where turns are far from too long,
// only who calls `watch` has, now and then.
#pragma once

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

// Of a worker, by its own thread. Jobs are told by their numbers, which wrap.
class turn_length {
 public:
  static constexpr std::chrono::nanoseconds most_time = std::chrono::microseconds(8);

  void watch() noexcept { jobs_to_watch_ = 8; }
  bool watches() const noexcept { return jobs_to_watch_ != 0; }

  // A job begins that is watched. `bodies`: that the thread has run so far; wraps.
  void begin(std::uint32_t job, std::uint32_t bodies, steady_clock::time_point now) noexcept {
    --jobs_to_watch_;
    job_ = job;
    bodies_ = bodies;
    begun_ = now;
  }
  bool is_measured(std::uint32_t job) const noexcept { return job == job_; }

  // A turn of the job that was watched last ends. How many bodies the next ones have.
  std::uint8_t end(std::uint32_t bodies, steady_clock::time_point now) noexcept {
    const steady_clock::duration took = std::max(now - begun_, steady_clock::duration(1));
    const std::int64_t fit = most_time * std::int64_t{bodies - bodies_} / took;
    is_short_ = fit >= 4 * bodies_in_a_turn;
    if (!is_short_) watch();
    return static_cast<std::uint8_t>(std::clamp<std::int64_t>(fit, 1, bodies_in_a_turn));
  }
  // The same of another job.
  void end_unmeasured() noexcept {
    if (!is_short_) watch();
  }

 private:
  std::uint8_t jobs_to_watch_ = 0;
  bool is_short_ = false;  // as far as is known; at first it is not
  std::uint32_t job_ = 0;
  std::uint32_t bodies_ = 0;
  steady_clock::time_point begun_{};
};

}  // namespace turnstile::detail
