// times.cpp - histograms of times, measured and read.

#include "registry/times.hpp"

#include <bit>
#include <cmath>

namespace turnstile {

std::size_t time_histogram::bucket_of(std::chrono::nanoseconds time) noexcept {
  const auto ns = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  return std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(ns)), bucket_count - 1);
}

std::chrono::nanoseconds time_histogram::percentile(double share) const noexcept {
  std::uint64_t all = 0;
  for (const std::uint64_t b : buckets) all += b;  // not `count`, which may be a moment older
  if (all == 0) return {};
  const double wanted = std::ceil(std::clamp(share, 0.0, 1.0) * static_cast<double>(all));
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i != bucket_count; ++i) {
    so_far += buckets[i];
    if (so_far != 0 && static_cast<double>(so_far) >= wanted) {
      return std::chrono::nanoseconds((std::int64_t{1} << i) - 1);
    }
  }
  return std::chrono::nanoseconds((std::int64_t{1} << (bucket_count - 1)) - 1);
}

void registry::keep_times(critical_section& section, bool on) { section.core_.measure(on); }

section_times registry::times(const critical_section& section) {
  const detail::times* const t = section.core_.measured();
  return t == nullptr ? section_times{} : t->look();
}

}  // namespace turnstile
