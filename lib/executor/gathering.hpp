// gathering.hpp - whether a section's coroutines do better all on one thread than on several.
//
// A pace (pace.hpp) knows what is always better on one thread. Of what takes longer, private work
// of some 100 ns beside each body, that depends on how far the cores are from each other and on how
// many there are, and is measured: the bodies of the whole pool, while its workers share the work,
// and in a trial, in which those that queue come to stay with one worker. If that is faster by a
// good part, the trial goes on.
//
// Shape     spread --trial--> settling --250 us--> probing --250 us--> gathered
//              ^                  |                    |                   |
//              +----- no rate ----+---- not faster ----+-- not any more, --+
//                                                         or it is time to look
//
//           While it goes on, others leave the worker alone for 500 us from each of its looks, some
//           100 us apart. So a job that takes longer ends it, and so does a worker without jobs.
//           After 10 ms, then 20, to 160, the work is shared again, to know whether it still is as
//           slow.
//
// Threads   a worker's own; of the others' bodies, sums that may be a job old
// Progress  a look reads one word of each worker once in a ms at most, and in a trial three times
//
// Source    what it is worth: bench/tried.md, Gathering.
#pragma once

#include "executor/pace.hpp"

#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

class gathering {
 public:
  enum class [[nodiscard]] verdict : std::uint8_t {
    nothing,   // there is no trial here, or it ends as it would
    go_on,     // for pace::trial from now
    no_more,   // in vain
    is_spent,  // it is time to see what the others do
  };

  // What one worker sees.
  struct sight {
    bool tries;          // to be brisk
    std::uint32_t jobs;  // that it has begun
    std::uint32_t bodies;
    steady_clock::time_point now;
  };

  // `total()` gives the bodies of all workers. All counts wrap.
  template <class Total>
  verdict look(const sight& s, Total total) noexcept {
    const bool stood_still = seen_ == steady_clock::time_point{} || s.now - seen_ > longest_gap;
    seen_ = s.now;
    if (stood_still) forget_rate(s.now);
    if (phase_ != phase::spread && (stood_still || !s.tries)) return stop(verdict::nothing);
    switch (phase_) {
      case phase::spread:
        if (s.tries) return begin_trial(s, total);
        note_spread(s.now, total);
        return verdict::nothing;
      case phase::settling: return settle(s, total);
      case phase::probing: return probe(s, total);
      case phase::gathered: return stay(s, total);
    }
    return verdict::nothing;
  }

  static constexpr std::chrono::milliseconds shortest_stay{10};
  static constexpr std::chrono::milliseconds longest_stay{160};

 private:
  enum class phase : std::uint8_t { spread, settling, probing, gathered };

  // At a moment. Of the worker's own: to see whether its jobs are of this kind.
  struct mark {
    steady_clock::time_point at{};
    std::uint32_t total = 0;
    std::uint32_t jobs = 0;
    std::uint32_t bodies = 0;
  };

  static constexpr std::chrono::microseconds settling_time{250};  // coroutines come over
  static constexpr std::chrono::microseconds probing_time{250};
  static constexpr std::chrono::milliseconds interval{1};      // between two sums
  static constexpr std::chrono::milliseconds half_of_rate{8};  // a rate is of 8 to 16 ms
  static constexpr std::chrono::milliseconds least_of_rate{5};
  static constexpr std::chrono::microseconds longest_gap{500};  // else nothing is known of it
  // Both times are noisy, and what is shared may serve other purposes.
  static constexpr double much_faster = 1.15;
  static constexpr double still_faster = 1.1;

  template <class Total>
  mark mark_of(const sight& s, Total total) const noexcept {
    return {s.now, total(), s.jobs, s.bodies};
  }
  // Bodies in a ns.
  static double rate(const mark& from, const mark& to) noexcept {
    return static_cast<double>(to.total - from.total) /
           static_cast<double>((to.at - from.at).count());
  }

  // The first ms after a trial is no part of it: the work is being shared out.
  void forget_rate(steady_clock::time_point now) noexcept {
    has_marks_ = false;
    next_sum_ = now + interval;
  }

  template <class Total>
  void note_spread(steady_clock::time_point now, Total total) noexcept {
    if (now < next_sum_) return;
    next_sum_ = now + interval;
    const mark m{now, total()};
    if (!has_marks_) {
      older_ = newer_ = m;
      has_marks_ = true;
    } else if (now - newer_.at >= half_of_rate) {
      older_ = newer_;
      newer_ = m;
    }
  }

  template <class Total>
  verdict begin_trial(const sight& s, Total total) noexcept {
    const mark m = mark_of(s, total);
    knows_rate_ = has_marks_ && s.now - older_.at >= least_of_rate;
    if (knows_rate_) spread_rate_ = rate(older_, m);
    from_ = m;
    phase_ = phase::settling;
    return knows_rate_ ? verdict::go_on : verdict::nothing;
  }

  template <class Total>
  verdict settle(const sight& s, Total total) noexcept {
    if (!knows_rate_) return verdict::nothing;
    if (s.now - from_.at < settling_time) return verdict::go_on;
    from_ = mark_of(s, total);
    phase_ = phase::probing;
    return verdict::go_on;
  }

  template <class Total>
  verdict probe(const sight& s, Total total) noexcept {
    if (s.now - from_.at < probing_time) return verdict::go_on;
    const mark m = mark_of(s, total);
    if (!is_faster(m, much_faster)) return fail();
    until_ = s.now + stay_;
    from_ = m;
    phase_ = phase::gathered;
    return verdict::go_on;
  }

  template <class Total>
  verdict stay(const sight& s, Total total) noexcept {
    if (s.now - from_.at < interval) return verdict::go_on;
    const mark m = mark_of(s, total);
    if (!is_faster(m, still_faster)) return fail();
    if (s.now >= until_) {
      stay_ = std::min(2 * stay_, longest_stay);
      return stop(verdict::is_spent);
    }
    from_ = m;
    return verdict::go_on;
  }

  // And with jobs that are turns of a section's coroutines.
  bool is_faster(const mark& m, double by) const noexcept {
    return rate(from_, m) >= by * spread_rate_ &&
           2 * (m.bodies - from_.bodies) >= m.jobs - from_.jobs;
  }

  verdict fail() noexcept {
    stay_ = shortest_stay;
    return stop(verdict::no_more);
  }
  verdict stop(verdict v) noexcept {
    phase_ = phase::spread;
    forget_rate(seen_);
    return v;
  }

  phase phase_ = phase::spread;
  bool knows_rate_ = false;
  bool has_marks_ = false;
  mark older_;
  mark newer_;
  mark from_;
  double spread_rate_ = 0;
  steady_clock::time_point seen_{};
  steady_clock::time_point next_sum_{};
  steady_clock::time_point until_{};
  std::chrono::milliseconds stay_ = shortest_stay;
};

}  // namespace turnstile::detail
