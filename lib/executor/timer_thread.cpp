// timer_thread.cpp - sleeps until the earliest timer is due, calls it, and sleeps on.
//
// The shared pool ends it before it ends itself: what still waits then is not called any more. It
// is no static object that was made after the pool: work that the pool runs at its end may be what
// needs it first. The object and the lock outlive both.

#include "executor/timer_thread.hpp"

#include "executor/timer_queue.hpp"

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/timer.hpp>
#include <turnstile/thread_pool.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>

namespace turnstile::detail {
namespace {

class timer_thread;

constinit std::mutex lock;
// Under the lock:
constinit bool is_over = false;
constinit timer_thread* running = nullptr;

class timer_thread {
 public:
  timer_thread() {
    const std::lock_guard locked(lock);
    if (is_over) return;
    runs_ = std::thread([this] { run(); });
    running = this;
  }
  timer_thread(const timer_thread&) = delete;
  timer_thread& operator=(const timer_thread&) = delete;

  // Under the lock, and before it is over.
  void ring() noexcept {
    has_rung_ = true;
    rung_.notify_one();
  }
  void join() noexcept { runs_.join(); }

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
  thread_pool::shared();  // ends it
  static timer_thread& it = *new timer_thread;
  return it;
}

}  // namespace

void make_timer_thread() { the_thread(); }

void wake_timer_thread() noexcept {
  timer_thread& it = the_thread();
  const std::lock_guard locked(lock);
  if (!is_over) it.ring();
}

bool end_timer_thread() noexcept {
  timer_thread* it = nullptr;
  {
    const std::lock_guard locked(lock);
    is_over = true;
    it = running;
    if (it != nullptr) it->ring();
  }
  if (here().calls != nullptr) return false;
  if (it != nullptr) it->join();
  return true;
}

}  // namespace turnstile::detail
