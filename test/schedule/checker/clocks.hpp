// clocks.hpp - what a thread knows of the others: vector clocks, and the oldest values it may see.
//
// Source  vector clocks for races: FastTrack (Flanagan, Freund, 2009), without its compression;
//         views for what a load may see: the promising semantics (Kang et al., 2017), without
//         promises.
#pragma once

#include "schedule/checker/world.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace schedule {

inline constexpr std::size_t max_atomics = 256;

// How far each thread has got, as somebody knows it.
struct clock {
  std::array<std::uint32_t, max_threads> of{};

  void join(const clock& other) noexcept {
    for (std::size_t t = 0; t != of.size(); ++t) of[t] = std::max(of[t], other.of[t]);
  }
  // The thread `t` at its time `when` happened before the owner of this clock.
  bool covers(int t, std::uint32_t when) const noexcept {
    return when <= of[static_cast<std::size_t>(t)];
  }
  // Every thread did at its time there. Without branches: it is asked for each access.
  bool covers(const clock& other) const noexcept {
    unsigned later = 0;
    for (std::size_t t = 0; t != of.size(); ++t) later |= other.of[t] > of[t];
    return later == 0;
  }
};

// Per atomic, the index in its modification order below which nothing may be read any more.
struct view {
  clock known;
  std::size_t atomics = 0;  // used in `oldest`
  std::array<std::uint16_t, max_atomics> oldest;

  std::uint16_t oldest_at(std::size_t atomic) const noexcept {
    return atomic < atomics ? oldest[atomic] : std::uint16_t{0};
  }
  void raise(std::size_t atomic, std::uint16_t index) noexcept {
    grow(atomic + 1);
    oldest[atomic] = std::max(oldest[atomic], index);
  }
  void join(const view& other) noexcept {
    known.join(other.known);
    grow(other.atomics);
    for (std::size_t i = 0; i != other.atomics; ++i)
      oldest[i] = std::max(oldest[i], other.oldest[i]);
  }
  void copy(const view& other) noexcept {
    known = other.known;
    atomics = other.atomics;
    std::copy_n(other.oldest.begin(), atomics, oldest.begin());
  }

 private:
  void grow(std::size_t n) noexcept {
    for (; atomics < n; ++atomics) oldest[atomics] = 0;
  }
};

}  // namespace schedule
