// neighbour.hpp - how one worker sees another: should it take some of what waits there?
//
// A coroutine that never has to queue stays on its worker, and workers that always have jobs never
// search. So each looks at the others now and then, and takes
//   half of what is queued at one that stands still, its mail and a fork: the system has taken its
//   core away, or its job is long;
//   half of what it has had too much for a while, from one that is calm (pace.hpp): for a short
//   while, if nothing at all waits here. Who has stood still itself, and has lost what waited there
//   to the others, takes that at once.
// While a section has a long line, queues run empty and fill again within some 100 us. What has
// been there all the while is what counts: without that, coroutines move all the time
// (bench/tried.md).
#pragma once

#include "executor/pace.hpp"

#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace turnstile::detail {

// Says when to look: every so many jobs and bodies, as many as last about 100 us. The clock is read
// only then. Jobs alone would not do: one of those that a drain has handed back lasts some 100 ns,
// and one of a coroutine that is alone for ever.
class now_and_then {
 public:
  // What the worker has begun and run so far; both wrap.
  bool comes(std::uint32_t jobs, std::uint32_t bodies) noexcept {
    const std::uint32_t done = jobs + bodies - done_;
    if (done < every_ && jobs - jobs_ < most_jobs) return false;
    const steady_clock::time_point now = steady_clock::now();
    const auto took = std::max(now - last_, steady_clock::duration(1));
    const std::int64_t wanted = done * steady_clock::duration(interval) / took;
    every_ =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(wanted, 1, std::min(every_ * 2, most)));
    done_ += done;
    jobs_ = jobs;
    last_ = now;
    return true;
  }
  // When it came.
  steady_clock::time_point last() const noexcept { return last_; }

 private:
  static constexpr std::chrono::microseconds interval{100};
  // What comes may grow long meanwhile.
  static constexpr std::uint32_t most_jobs = limit(256u, 1u);
  static constexpr std::uint32_t most = limit(8192u, 1u);

  std::uint32_t every_ = 1;
  std::uint32_t done_ = 0;
  std::uint32_t jobs_ = 0;
  steady_clock::time_point last_{};
};

// Whether a worker makes up for having stood still. Asked each time that it looks at some of the
// others.
class making_up {
 public:
  // `to_see_all`: in so many looks it sees each of them. It does in twice as many, for in the first
  // one it begins to judge their pace.
  void note_look(std::uint32_t to_see_all, steady_clock::time_point now) noexcept {
    if (last_ != steady_clock::time_point{} && now - last_ >= late) {
      left_ = std::max(4u, 2 * to_see_all);
    } else if (left_ != 0) {
      --left_;
    }
    last_ = now;
  }
  bool is_on() const noexcept { return left_ != 0; }

 private:
  // Who has not looked for so long has stood still, or its jobs are so long that moving others
  // costs nothing.
  static constexpr std::chrono::microseconds late{500};

  std::uint32_t left_ = 0;  // looks
  steady_clock::time_point last_{};
};

class neighbour {
 public:
  pace pace_there;

  // How many of the jobs `there` should come here, where `here` are. At once: of a surplus that is
  // no older, too.
  std::size_t share(std::uint32_t jobs_begun, const work_done& work, std::size_t there,
                    std::size_t here, bool at_once, steady_clock::time_point now) noexcept {
    note_done(jobs_begun + work.requests, now);
    if (stands_still_) {
      has_surplus_ = false;
      return there - there / 2;
    }
    const std::size_t surplus = lasting_surplus(there, here, at_once, now);
    if (surplus == 0 || !is_calm(work, now)) return 0;
    has_surplus_ = false;
    return surplus / 2;
  }

  bool stands_still() const noexcept { return stands_still_; }

  // Who has nothing to do does not stand still.
  void note_nothing_waits(steady_clock::time_point now) noexcept {
    same_since_ = now;
    stands_still_ = has_surplus_ = false;
  }

 private:
  // A checker's clock may stand still.
  static constexpr std::chrono::microseconds long_for_a_job =
      limit(std::chrono::microseconds(100), std::chrono::microseconds(0));
  static constexpr std::chrono::microseconds long_for_a_surplus{2000};
  static constexpr std::chrono::microseconds long_with_nothing_here{150};

  void note_done(std::uint32_t done, steady_clock::time_point now) noexcept {
    if (done != done_) same_since_ = now;
    stands_still_ = done == done_ && now - same_since_ >= long_for_a_job;
    done_ = done;
  }

  std::size_t lasting_surplus(std::size_t there, std::size_t here, bool at_once,
                              steady_clock::time_point now) noexcept {
    if (there <= here + here / 4 + 1) {
      has_surplus_ = false;
      return 0;
    }
    if (!has_surplus_) {
      has_surplus_ = true;
      surplus_since_ = nothing_here_since_ = now;
      least_ = there - here;
    }
    if (here != 0) nothing_here_since_ = now;
    least_ = std::min(least_, there - here);
    const bool lasts = now - surplus_since_ >= long_for_a_surplus ||
                       now - nothing_here_since_ >= long_with_nothing_here;
    return at_once || lasts ? least_ : 0;
  }

  // Who has not looked for long does not know, nor who has just begun to.
  bool is_calm(const work_done& work, steady_clock::time_point now) noexcept {
    if (pace_there.is_outdated(now)) {
      pace_there.begin(work, now);
      judges_since_ = now;
      return false;
    }
    return !pace_there.look(work, now) && now - judges_since_ >= pace::shortest_look;
  }

  steady_clock::time_point same_since_{};
  steady_clock::time_point surplus_since_{};
  steady_clock::time_point nothing_here_since_{};
  steady_clock::time_point judges_since_{};
  std::size_t least_ = 0;   // of the surplus
  std::uint32_t done_ = 0;  // jobs begun and bodies
  bool stands_still_ = false;
  bool has_surplus_ = false;
};

}  // namespace turnstile::detail
