// dice.hpp - the random numbers and the length of a stress run.
//
// TURNSTILE_STRESS_SEED repeats a run's numbers (not its interleavings); TURNSTILE_STRESS_SCALE
// makes it that many times longer.
#pragma once

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
