// timer_queue.hpp - the timers that wait, and the protocol of a call against its cancel.
//
// Shape     Under the lock: the heap, and of each timer whether it waits in it.
//             not waiting --add----> waiting     by who starts it
//             waiting --take-------> not waiting, called = the timer   by who makes calls
//             waiting --remove-----> not waiting                       by who cancels it
//           called = null --take--> timer --its call is over--> null. One at a time: who makes
//           calls has `turn`, the library's thread (timer_thread.cpp) or who moves a manual_clock.
//           alarm = when the library's thread looks again, at the latest. Who starts an earlier
//           timer wakes it; while it looks, alarm is before all times, and nobody does. With a
//           manual_clock it has nothing to do.
//           by_hand = the manual_clock's time, or `none`
//
// Edges     T1  called.exchange(seq_cst) in call -> called.load(acquire) in remove: the call is
//               over, and with it its last touch of the timer. Seq_cst because notify looks whether
//               anybody waits.
//               The same thread's store(release) of the next timer in take may be what is seen
//               instead
//           A timer leaves the heap once, under the lock, so either it is called or remove says
//           true.
//           `called` is set under that lock: who finds that the timer does not wait any more finds
//           it there, or the call is over.
//           by_hand is relaxed: a number, changed under the lock; it publishes nothing.
//
// Progress  add, remove and take block a thread for the length of a heap's step. remove may wait
//           for a call, which is short. With no timer due the library's thread sleeps.
//
// Dangers   A call may end its timer's life, so `called` is only compared. A new timer in the same
//           place that has not been called waits in the heap, so that its cancel does not look at
//           `called`; and it is not called before this call is over.
//           On the thread that makes the call (thread_state::calls) cancel must not wait for it,
//           nor a start for its turn.
//           The process may end, and its static objects, while timers wait: this is never
//           destroyed.
//
// Proof     test/schedule (timers), test/executor (timers, manual_clock), test/stress (timers)
#pragma once

#include "executor/timer_heap.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/timer.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace turnstile::detail {

class timer_queue {
 public:
  enum class [[nodiscard]] then : std::uint8_t {
    nothing,
    wake,      // the library's thread has to look earlier than it will
    call_due,  // its time has come by a manual_clock, which nobody may ever move again
  };

  then add(timer& t, time_point at) noexcept;
  bool remove(timer& t) noexcept;

  time_point now() const noexcept;
  bool has_come(time_point t) const noexcept;
  std::size_t size() noexcept;

  // By the library's thread: calls what is due, and says when to come back.
  time_point look() noexcept;

  // By a manual_clock. False: there is one already.
  bool begin_by_hand() noexcept;
  then end_by_hand() noexcept;
  bool goes_by_hand() const noexcept { return by_hand_.load(relaxed) != none; }
  void advance_to(time_point t) noexcept;
  void advance(std::chrono::nanoseconds by) noexcept;
  void call_due_by_hand() noexcept;

 private:
  enum class clock : std::uint8_t { steady, by_hand };

  // The coarse clock is a tick of the kernel behind, 10 ms or less, and a few of them where the
  // core that moves it on stands still.
  static constexpr std::chrono::seconds surely_far{1};
  static constexpr time_point::rep none = time_point::min().time_since_epoch().count();

  void call_all(clock whose) noexcept;
  timer* take(clock whose) noexcept;
  void call(timer& t) noexcept;
  time_point first_time() const noexcept;
  bool must_wake() const noexcept;

  mutex turn_;  // of who makes calls; taken before lock_
  mutex lock_;
  timer_heap heap_;
  guarded<std::size_t> size_{0};
  guarded<std::uint64_t> started_{0};
  guarded<time_point> alarm_{time_point::max()};
  guarded<bool> left_to_caller_{false};  // turn_: a manual_clock has begun or moved within a call
  atomic<timer*> called_{nullptr};
  atomic<time_point::rep> by_hand_{none};
};

extern timer_queue timers;

}  // namespace turnstile::detail
