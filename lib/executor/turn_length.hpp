// turn_length.hpp - how many bodies a coroutine that need not suspend runs before others have its
// worker.
//
// As many as a drain's budget, if they and what lies between them are over within 5 us; where that
// takes longer, fewer. Of 32 coroutines on a worker each waits for the turns of the other 31: with
// a microsecond of work beside each body, turns of 32 bodies are 2 ms of waiting (bench/tried.md).
//
// What is measured is a job from its start to the end of a turn, by the bodies that were run
// meanwhile. The clock costs as much as five short bodies. So a turn that ends unmeasured has the
// next few jobs looked at, one of which may be its like; and where 32 bodies take less than 4 us,
// only who calls `watch` has, now and then.
//
// Where nobody waits the same coroutine has the next turn as well, and to ask whether somebody does
// costs as much as six kept executions. So those turns get longer.
#pragma once

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

inline constexpr std::chrono::nanoseconds longest_turn = std::chrono::microseconds(5);
inline constexpr std::chrono::nanoseconds longest_lone_turn = std::chrono::microseconds(8);

// How many bodies are over within `most`, where `bodies` took so long.
inline std::int64_t bodies_that_fit(std::chrono::nanoseconds most, std::uint32_t bodies,
                                    steady_clock::duration took) noexcept {
  return most * std::int64_t{bodies} / std::max(took, steady_clock::duration(1));
}

// Of a worker, by its own thread. Jobs are told by their numbers, which wrap.
class turn_length {
 public:
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
    const std::int64_t fit = bodies_that_fit(longest_turn, bodies - bodies_, now - begun_);
    is_short_ = fit >= bodies_in_a_turn * 5 / 4;
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

// Turns of a job for which nobody waited when they began, by the worker's own thread: each has up
// to twice as many bodies as the one before, as long as it is over within 8 us.
class lone_turns {
 public:
  // Who comes meanwhile waits for so many, even if they suddenly take long; for twice as many where
  // half of them are in what the thread keeps (thread_state::end_of_turn).
  static constexpr std::uint32_t most_bodies = 8 * bodies_in_a_turn;

  // One begins. How many bodies it has; `at_first` where the job has had none yet.
  std::uint32_t begin(std::uint32_t job, std::uint32_t bodies, steady_clock::time_point now,
                      std::uint32_t at_first) noexcept {
    length_ = job == job_ ? next_length(bodies, now) : at_first;
    job_ = job;
    bodies_ = bodies;
    begun_ = now;
    return length_;
  }

 private:
  std::uint32_t next_length(std::uint32_t bodies, steady_clock::time_point now) const noexcept {
    const std::int64_t most = std::min(2 * length_, most_bodies);
    const std::int64_t fit = bodies_that_fit(longest_lone_turn, bodies - bodies_, now - begun_);
    return static_cast<std::uint32_t>(std::clamp<std::int64_t>(fit, 1, most));
  }

  std::uint32_t job_ = 0;
  std::uint32_t length_ = 1;
  std::uint32_t bodies_ = 0;
  steady_clock::time_point begun_{};
};

}  // namespace turnstile::detail
