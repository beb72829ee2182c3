// late_tickets.hpp - the library's seam for atomics, with ticket words that begin near the end.
//
// A 64-bit word made from a value is the ticket word: it starts four tickets before they run out of
// bits, so that a few requests reach what would otherwise take 2^37 of them. Everything else is the
// standard atomic.
#pragma once

#include <atomic>
#include <cstdint>

namespace turnstile::detail {

template <class T>
class atomic : public std::atomic<T> {
 public:
  using std::atomic<T>::atomic;
};

template <>
class atomic<std::uint64_t> : public std::atomic<std::uint64_t> {
 public:
  static constexpr std::uint64_t first_ticket = (std::uint64_t{1} << 37) - 4;

  constexpr atomic() noexcept = default;
  constexpr atomic(std::uint64_t value) noexcept
      : std::atomic<std::uint64_t>(value + (first_ticket << 27)) {}
};

template <class T>
using guarded = T;

template <class T>
using statistic = std::atomic<T>;

using enum std::memory_order;

inline void pause() noexcept {}

}  // namespace turnstile::detail
