// budget.hpp - how long one thread serves others before it passes the section on.
//
// A drain ends after 32 bodies or 50 us, whichever comes first: folly's strand serves 32, and 50 us
// is what a caller may lose to others without noticing. The clock costs as much as a short body, so
// it is read after 1, 2, 4, ... bodies, and after each one once a quarter of the time is gone.
#pragma once

#include <chrono>

namespace turnstile::detail {

class budget {
 public:
  static constexpr unsigned most_bodies = 32;
  static constexpr std::chrono::nanoseconds most_time = std::chrono::microseconds(50);

  // Called after each body. True: pass the section on.
  bool spent() noexcept {
    ++bodies_;
    if (bodies_ >= most_bodies) return true;
    if (bodies_ < next_look_) return false;
    const auto gone = std::chrono::steady_clock::now() - begun_;
    next_look_ = gone * 4 < most_time ? bodies_ * 2 : bodies_ + 1;
    return gone >= most_time;
  }

 private:
  unsigned bodies_ = 0;
  unsigned next_look_ = 1;
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

}  // namespace turnstile::detail
