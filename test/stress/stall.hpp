// stall.hpp - says who is still waiting when a round does not go on, and ends the program.
//
// A deadline that only fails: nothing waits for it otherwise.
#pragma once

#include "stress/history.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <span>
#include <stop_token>
#include <thread>

namespace stress {

class stall_alarm {
 public:
  // Longer than any delay; twice as long is still shorter than the deadline of a test.
  static constexpr std::chrono::seconds patience{10};

  explicit stall_alarm(std::span<const record> records)
      : thread_([this, records](std::stop_token over) { watch(records, over); }) {}

 private:
  void watch(std::span<const record> records, const std::stop_token& over) {
    std::unique_lock lock(mutex_);
    std::uint64_t before = stamp();
    while (!never_.wait_for(lock, over, patience, [&] { return over.stop_requested(); })) {
      const std::uint64_t now = stamp();
      if (now == before + 1) give_up(records);
      before = now;
    }
  }

  // The records may still be written to: what is said here is the best there is.
  [[noreturn]] static void give_up(std::span<const record> records) {
    std::fprintf(stderr, "nothing goes on; %s\n", first_violation(records).c_str());
    std::abort();
  }

  std::mutex mutex_;
  std::condition_variable_any never_;
  std::jthread thread_;
};

}  // namespace stress
