// times.hpp - how long a section was waited for and held.
//
// Shape     Numbers with one writer at a time, the section's owner, so plain loads and stores,
//           relaxed; readers take what they find. Switched off and on again between a start and its
//           end, the hold does not count: `round_` tells.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/registry.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

class histogram {
 public:
  void add(std::chrono::nanoseconds time) noexcept {
    raise(count_, 1);
    raise(sum_, static_cast<std::uint64_t>(time.count()));
    raise(buckets_[time_histogram::bucket_of(time)], 1);
  }

  time_histogram look() const noexcept {
    time_histogram h;
    h.count = count_.load(relaxed);
    h.sum = std::chrono::nanoseconds(sum_.load(relaxed));
    for (std::size_t i = 0; i != buckets_.size(); ++i) h.buckets[i] = buckets_[i].load(relaxed);
    return h;
  }

 private:
  using number = atomic<std::uint64_t>;

  static void raise(number& n, std::uint64_t by) noexcept {
    n.store(n.load(relaxed) + by, relaxed);
  }

  number count_{0};
  number sum_{0};
  std::array<number, time_histogram::bucket_count> buckets_{};
};

class times {
 public:
  // Never 0.
  static std::uint64_t now() noexcept {
    const std::chrono::nanoseconds t = steady_clock::now().time_since_epoch();
    return static_cast<std::uint64_t>(std::max<std::chrono::nanoseconds::rep>(t.count(), 1));
  }

  void switch_on() noexcept { round_.fetch_add(1, relaxed); }

  // Only the owner. A turn begins, and counts as one only if it has a body, or a guard gets it.
  void begin(std::uint64_t accepted_at, std::uint64_t now) noexcept {
    accepted_ = accepted_at;
    began_ = now;
    began_in_ = round_.load(relaxed);
  }
  void count_wait() noexcept {
    if (accepted_ != 0 && is_of_this_round()) wait_.add(between(accepted_, began_));
    accepted_ = 0;
  }
  void end(std::uint64_t now) noexcept {
    count_wait();
    if (began_ != 0 && is_of_this_round()) hold_.add(between(began_, now));
    began_ = 0;
  }
  void forget() noexcept {
    accepted_ = 0;
    began_ = 0;
  }

  section_times look() const noexcept { return {wait_.look(), hold_.look()}; }

 private:
  static std::chrono::nanoseconds between(std::uint64_t from, std::uint64_t to) noexcept {
    return std::chrono::nanoseconds(to > from ? to - from : 0);
  }

  bool is_of_this_round() const noexcept { return began_in_ == round_.load(relaxed); }

  atomic<std::uint32_t> round_{0};
  guarded<std::uint64_t> accepted_{0};  // only the owner: what began, if its wait is not counted
  guarded<std::uint64_t> began_{0};
  guarded<std::uint32_t> began_in_{0};
  histogram wait_;
  histogram hold_;
};

}  // namespace turnstile::detail
