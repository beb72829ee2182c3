// dice.hpp - the random numbers and the length of a stress run.
//
// TURNSTILE_STRESS_SEED repeats a run's numbers (not its interleavings); TURNSTILE_STRESS_SCALE
// makes it that many times longer; TURNSTILE_STRESS_SECONDS adds rounds until so many seconds have
// passed, where a test goes by rounds (histories.cpp).
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace stress {

inline std::uint32_t number_from_environment(const char* name, std::uint32_t otherwise) {
  const char* const text = std::getenv(name);
  return text == nullptr ? otherwise : static_cast<std::uint32_t>(std::strtoul(text, nullptr, 10));
}

inline int times_scale(int n) {
  static const auto scale = number_from_environment("TURNSTILE_STRESS_SCALE", 1);
  return n * static_cast<int>(scale);
}

// Counts the rounds of a test: `least` of them, scaled, and then on for as long as was asked for.
class length_of_run {
 public:
  explicit length_of_run(int least) : left_(times_scale(least)) {}

  bool goes_on() { return left_-- > 0 || clock::now() < end_; }

 private:
  using clock = std::chrono::steady_clock;

  int left_;
  const clock::time_point end_ =
      clock::now() + std::chrono::seconds(number_from_environment("TURNSTILE_STRESS_SECONDS", 0));
};

inline std::uint32_t seed() {
  static const std::uint32_t s = [] {
    const auto chosen = number_from_environment("TURNSTILE_STRESS_SEED", std::random_device{}());
    std::printf("TURNSTILE_STRESS_SEED=%u\n", chosen);
    std::fflush(stdout);
    return chosen;
  }();
  return s;
}

// One for each thread or coroutine; `who` tells them apart.
class dice {
 public:
  explicit dice(std::uint32_t who) {
    std::seed_seq all{seed(), who};
    numbers_.seed(all);
  }

  // 0 to n - 1.
  unsigned below(unsigned n) { return static_cast<unsigned>(numbers_() % n); }
  bool one_in(unsigned n) { return below(n) == 0; }

 private:
  std::minstd_rand numbers_;
};

// What a sanitizer makes many times slower or larger is done less often under one.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif
#else
inline constexpr bool sanitized = false;
#endif

}  // namespace stress
