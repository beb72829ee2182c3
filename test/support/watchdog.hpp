// watchdog.hpp - ends the program, with the test's name and where its threads are, when a test
// takes too long.
#pragma once

#include "support/stacks.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

namespace support {

inline std::chrono::seconds seconds_from_environment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return std::chrono::seconds(text == nullptr ? otherwise : std::atoi(text));
}

// The deadline of one test: 60 s, or what TEST_DEADLINE_SECONDS says, as often as a stress run was
// made longer, besides the time that it was asked to take.
inline std::chrono::seconds deadline_of_a_test() {
  const auto times = seconds_from_environment("TURNSTILE_STRESS_SCALE", 1).count();
  return seconds_from_environment("TEST_DEADLINE_SECONDS", 60) * times +
         seconds_from_environment("TURNSTILE_STRESS_SECONDS", 0);
}

class watchdog {
 public:
  watchdog() : thread_([this] { watch(); }) {}
  ~watchdog() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void arm(const char* test) { set(test, clock::now() + deadline_of_a_test()); }
  void disarm() { set("", clock::time_point::max()); }

 private:
  using clock = std::chrono::steady_clock;

  void set(const char* test, clock::time_point end) {
    {
      const std::lock_guard lock(mutex_);
      test_ = test;
      end_ = end;
    }
    changed_.notify_one();
  }

  void watch() {
    std::unique_lock lock(mutex_);
    while (!stopping_) {
      if (end_ == clock::time_point::max()) {
        changed_.wait(lock);
      } else if (clock::now() >= end_) {
        std::fprintf(stderr, "watchdog: this test takes too long: %s\n", test_.c_str());
        lock.unlock();  // what doctest does at an abort ends in disarm, on this thread
        stacks::print();
        std::abort();
      } else {
        changed_.wait_until(lock, end_);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;
  clock::time_point end_ = clock::time_point::max();
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace support
