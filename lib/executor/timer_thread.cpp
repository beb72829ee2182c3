// timer_thread.cpp - sleeps until the earliest timer is due, calls it, and sleeps on.
//
// A static object made after the shared pool, so that it is over before that is: a call never posts to
// a pool that has ended. What still waits then is not called any more. The lock outlives both.

#include "executor/timer_thread.hpp"

#include "executor/timer_queue.hpp"

#include <turnstile/detail/timer.hpp>
#include <turnstile/thread_pool.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace turnstile::detail {
namespace {

constinit std::mutex lock;
constinit bool is_over = false;  // under the lock

class timer_thread {
 public:
  timer_thread() : runs_([this] { run(); }) {}
  ~timer_thread() {
    {
      const std::lock_guard locked(lock);
      is_over = true;
      rung_.notify_one();
    }
    runs_.join();
  }
  timer_thread(const timer_thread&) = delete;
  timer_thread& operator=(const timer_thread&) = delete;

  // Under the lock, and before it is over.
  void ring() noexcept {
    has_rung_ = true;
    rung_.notify_one();
  }

 private:
  void run() noexcept {
    do {
      sleep_until(timers.look());
    } while (!ends());
  }

  // Or until it is rung. One that came while it looked is not lost.
  void sleep_until(time_point t) noexcept {
    std::unique_lock locked(lock);
    const auto is_called = [this] { return has_rung_ || is_over; };
    if (t == time_point::max()) {
      rung_.wait(locked, is_called);
    } else {
      rung_.wait_until(locked, t, is_called);
    }
    has_rung_ = false;
  }

  static bool ends() noexcept {
    const std::lock_guard locked(lock);
    return is_over;
  }

  std::condition_variable rung_;
  bool has_rung_ = false;  // under the lock
  std::thread runs_;
};

timer_thread& the_thread() {
  thread_pool::shared();  // made before it, so it ends after it
  static timer_thread it;
  return it;
}

}  // namespace

void make_timer_thread() { the_thread(); }

void wake_timer_thread() noexcept {
  timer_thread& it = the_thread();
  const std::lock_guard locked(lock);
  if (!is_over) it.ring();
}

}  // namespace turnstile::detail
