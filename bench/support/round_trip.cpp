#include "support/round_trip.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <thread>

namespace bench {
namespace {

constexpr int bursts = 31;
constexpr int trips_in_burst = 64;

struct alignas(128) line {
  std::atomic<int> word{0};

  void pass(int from) {
    while (word.load(std::memory_order_acquire) != from) {
    }
    word.store(from + 1, std::memory_order_release);
  }
};

}  // namespace

nanoseconds line_round_trip() {
  if (std::thread::hardware_concurrency() < 2) return {};
  line between;
  std::thread other([&between] {
    for (int trip = 0; trip != bursts * trips_in_burst; ++trip) between.pass(2 * trip + 1);
  });
  std::array<nanoseconds, bursts> took;
  int trip = 0;
  for (nanoseconds& t : took) {
    t = time_of([&] {
      for (int end = trip + trips_in_burst; trip != end; ++trip) between.pass(2 * trip);
    });
  }
  other.join();
  std::ranges::nth_element(took, took.begin() + bursts / 2);
  return took[bursts / 2] / trips_in_burst;
}

}  // namespace bench
