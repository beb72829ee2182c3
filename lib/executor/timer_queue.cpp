// timer_queue.cpp - timers: started, cancelled, called.

#include "executor/timer_queue.hpp"

#include "executor/timer_thread.hpp"

#include <turnstile/detail/thread_state.hpp>

#include <algorithm>
#include <mutex>

namespace turnstile::detail {
namespace {

time_point on_the_scale_of_timers(steady_clock::time_point t) noexcept {
  return time_point(std::chrono::duration_cast<time_point::duration>(t.time_since_epoch()));
}

time_point steady_now() noexcept { return on_the_scale_of_timers(steady_clock::now()); }

}  // namespace

constinit timer_queue timers;

time_point timer_queue::now() const noexcept {
  const time_point::rep by_hand = by_hand_.load(relaxed);
  return by_hand == none ? steady_now() : time_point(time_point::duration(by_hand));
}

bool timer_queue::has_come(time_point t) const noexcept {
  const bool is_far = !goes_by_hand() && on_the_scale_of_timers(coarse_now()) + surely_far < t;
  return !is_far && t <= now();
}

std::size_t timer_queue::size() noexcept {
  const std::lock_guard locked(lock_);
  return size_;
}

timer_queue::then timer_queue::add(timer& t, time_point at) noexcept {
  const std::lock_guard locked(lock_);
  t.at_ = at;
  t.number_ = started_;
  t.waits_ = true;
  started_ = started_ + 1;
  size_ = size_ + 1;
  heap_.add(t);
  if (goes_by_hand()) return at <= now() ? then::call_due : then::nothing;
  if (!must_wake()) return then::nothing;
  alarm_ = at;
  return then::wake;
}

// The first timer is due before the library's thread looks again.
bool timer_queue::must_wake() const noexcept {
  const time_point alarm = alarm_;
  return first_time() < alarm;
}

time_point timer_queue::first_time() const noexcept {
  const timer* const first = heap_.first();
  if (first == nullptr) return time_point::max();
  return first->at_;
}

bool timer_queue::remove(timer& t) noexcept {
  {
    const std::lock_guard locked(lock_);
    if (t.waits_) {
      t.waits_ = false;
      size_ = size_ - 1;
      heap_.remove(t);
      return true;
    }
  }
  if (here().calls == &t) return false;
  while (called_.load(acquire) == &t) called_.wait(&t, relaxed);  // T1
  return false;
}

// The first one, if it is due; it is `called` then. The time is asked for under the lock: by then
// it may be another clock's.
timer* timer_queue::take(clock whose) noexcept {
  const std::lock_guard locked(lock_);
  timer* const t = heap_.first();
  if (t == nullptr || goes_by_hand() != (whose == clock::by_hand) || first_time() > now()) {
    return nullptr;
  }
  heap_.remove(*t);
  t->waits_ = false;
  size_ = size_ - 1;
  called_.store(t, release);  // T1; ordered by the lock otherwise
  return t;
}

void timer_queue::call(timer& t) noexcept {
  here().calls = &t;
  t.due_(t);  // t may be gone
  here().calls = nullptr;
  called_.exchange(nullptr, seq_cst);  // T1
  called_.notify_all();
}

void timer_queue::call_all(clock whose) noexcept {
  const std::lock_guard turn(turn_);
  do {
    left_to_caller_ = false;
    while (timer* const t = take(whose)) call(*t);
    whose = clock::by_hand;
  } while (left_to_caller_);
}

time_point timer_queue::look() noexcept {
  {
    const std::lock_guard locked(lock_);
    alarm_ = time_point::min();
  }
  call_all(clock::steady);
  const std::lock_guard locked(lock_);
  alarm_ = goes_by_hand() ? time_point::max() : first_time();
  return alarm_;
}

// In a call, who makes it goes on with what has become due.
void timer_queue::call_due_by_hand() noexcept {
  if (here().calls == nullptr) {
    call_all(clock::by_hand);
  } else {
    left_to_caller_ = true;
  }
}

bool timer_queue::begin_by_hand() noexcept {
  const std::lock_guard locked(lock_);
  if (goes_by_hand()) return false;
  by_hand_.store(steady_now().time_since_epoch().count(), relaxed);
  return true;
}

timer_queue::then timer_queue::end_by_hand() noexcept {
  const std::lock_guard locked(lock_);
  by_hand_.store(none, relaxed);
  if (!must_wake()) return then::nothing;
  alarm_ = first_time();
  return then::wake;
}

void timer_queue::advance_to(time_point t) noexcept {
  {
    const std::lock_guard locked(lock_);
    by_hand_.store(std::max(now(), t).time_since_epoch().count(), relaxed);
  }
  call_due_by_hand();
}

void timer_queue::advance(std::chrono::nanoseconds by) noexcept {
  {
    const std::lock_guard locked(lock_);
    by_hand_.store(std::max(now(), later(now(), by)).time_since_epoch().count(), relaxed);
  }
  call_due_by_hand();
}

void timer::start(time_point at) noexcept {
  is_started_ = true;
  switch (timers.add(*this, at)) {  // this may be gone
    case timer_queue::then::nothing: break;
    case timer_queue::then::wake: wake_timer_thread(); break;
    case timer_queue::then::call_due: timers.call_due_by_hand(); break;
  }
}

bool timer::withdraw() noexcept {
  if (!timers.remove(*this)) return false;
  is_started_ = false;
  return true;
}

time_point timer_now() noexcept { return timers.now(); }

bool has_come(time_point t) noexcept { return timers.has_come(t); }

void prepare_timers() {
  if (!timers.goes_by_hand()) make_timer_thread();
}

}  // namespace turnstile::detail
