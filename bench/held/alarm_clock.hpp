// alarm_clock.hpp - something outside the program that takes its time, for a coroutine to await.
#pragma once

#include "held/held.hpp"
#include "support/stopwatch.hpp"

#include <functional>
#include <semaphore>
#include <sys/prctl.h>
#include <thread>
#include <utility>

namespace bench::held {

// Rings once, hold_time after it was set, on a thread of its own. One alarm at a time.
class alarm_clock {
 public:
  alarm_clock() : thread_([this] { serve(); }) {}
  ~alarm_clock() {
    set(nullptr);
    thread_.join();
  }
  alarm_clock(const alarm_clock&) = delete;
  alarm_clock& operator=(const alarm_clock&) = delete;

  void set(std::function<void()> ring) {
    ring_ = std::move(ring);
    due_ = clock::now() + hold_time;
    is_set_.release();
  }

 private:
  void serve() {
    prctl(PR_SET_TIMERSLACK, 1);  // the usual 50 us would make half a hold more
    for (is_set_.acquire(); ring_; is_set_.acquire()) {
      // Whoever is woken may set the next alarm before `ring` returns.
      const auto ring = std::move(ring_);
      std::this_thread::sleep_until(due_);
      ring();
    }
  }

  std::binary_semaphore is_set_{0};
  std::function<void()> ring_;  // empty: no more alarms
  clock::time_point due_;
  std::thread thread_;
};

}  // namespace bench::held
