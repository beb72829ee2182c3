// gpu_looks.cpp - looking how far a stream of a GPU got, and telling those who wait there.

#include "device/gpu/gpu_runtime.hpp"
#include "device/gpu/gpu_stream.hpp"
#include "device/gpu/place_errors.hpp"

#include <mutex>
#include <utility>

namespace turnstile::detail {

namespace {

constexpr int most_failed_looks = 100;  // in a row: a stream that never answers keeps nobody

}  // namespace

polled::answer gpu_stream::poll() noexcept {
  if (end_by_fork() != nullptr) return {false, false};  // who has the locks may not be here
  std::shared_ptr<gpu_stream> me;
  device_.prepare_to_look();
  bool any = false;
  while (gpu_point* const p = first_or_let_go(me)) {
    if (!is_past() || !p->calls_.are_settled()) return {any, true};
    if (p == past_) past_ = nullptr;
    tell(*p);
    any = true;
  }
  if (is_closed_.load(relaxed)) finish();
  return {any, false};
}

gpu_point* gpu_stream::first_or_let_go(std::shared_ptr<gpu_stream>& me) noexcept {
  const std::lock_guard locked(list_lock_);
  if (points_.empty()) me = std::move(watched_);
  return points_.front();
}

bool gpu_stream::is_past() noexcept {
  if (past_ != nullptr || device_.over() != nullptr) return true;
  bool past = false;
  while (!look(past)) {
  }
  return past;
}

// Null: none has; `last` is the last that waits.
gpu_point* gpu_stream::first_with_event(gpu_point*& last) noexcept {
  const std::lock_guard locked(list_lock_);
  last = points_.back();
  gpu_point* p = points_.front();
  while (p != nullptr && p->spoilt_) p = p->next_;
  return p;
}

// One question. False: it failed, so another one has to be asked.
bool gpu_stream::look(bool& past) noexcept {
  gpu_point* last = nullptr;
  gpu_point* const asked = first_with_event(last);
  gpu_outcome o = asked == nullptr
                      ? gpu_outcome{device_.api().stream_query(native()), "cudaStreamQuery"}
                      : gpu_outcome{device_.api().event_query(asked->native()), "cudaEventQuery"};
  o.code = device_.answer(o.code);
  past = !o.failed() || (o.code != gpu_errors::not_ready && device_.ends_with(o, name()));
  if (past || o.code == gpu_errors::not_ready) {
    if (past) past_ = asked == nullptr ? last : asked;
    failed_looks_ = 0;
    return true;
  }
  device_.forget_last_error();  // it is told at the place
  if (asked != nullptr) {
    spoil(*asked, o);
    return false;
  }
  past = !asks_again();
  if (past) past_ = last;
  return true;
}

// The stream, which did not answer. Somebody else's may be gone, and what is captured does not run.
bool gpu_stream::asks_again() noexcept {
  bool is_capturing = false;
  if (ask_for_capture(is_capturing).failed()) device_.forget_last_error();
  if (!is_adopted_ && !is_capturing && ++failed_looks_ != most_failed_looks) return true;
  failed_looks_ = 0;
  return false;
}

void gpu_stream::spoil(gpu_point& p, gpu_outcome why) noexcept {
  const std::lock_guard locked(list_lock_);
  p.spoil(why);
}

// By poll: the oldest.
void gpu_stream::tell(gpu_point& p) noexcept {
  {
    const std::lock_guard locked(list_lock_);
    points_.pop();
    is_telling_ = true;
  }
  std::exception_ptr e = error_of(p);
  if (p.inner_) {
    add_error(carried_, std::move(e), name());
    e = nullptr;
  }
  {
    const std::lock_guard locked(list_lock_);
    is_telling_ = false;
  }
  p.reach(std::move(e));  // p may be in use again
}

std::exception_ptr gpu_stream::error_of(gpu_point& p) noexcept {
  const gpu_end* const over = device_.over();
  std::exception_ptr first;
  if (over != nullptr) {
    first = over->error;
  } else if (p.failure_.failed()) {
    first = device_.failure(p.failure_, name());
  }
  if (!p.inner_) add_error(first, std::exchange(carried_, nullptr), name());
  add_error(first, std::exchange(p.owed_, nullptr), name());
  p.calls_.dispose([&](std::exception_ptr e) { add_error(first, std::move(e), name()); });
  return p.inner_ && over != nullptr ? nullptr : first;
}

bool gpu_stream::can_block() const noexcept {
  const std::lock_guard locked(list_lock_);
  return !points_.empty() && !points_.front()->spoilt_ && device_.over() == nullptr;
}

void gpu_stream::hold() noexcept {
  const std::lock_guard locked(list_lock_);
  if (++holds_ == 1) held_ = shared_from_this();
}

void gpu_stream::let_go() noexcept {
  std::shared_ptr<gpu_stream> me;  // ends after the lock
  const std::lock_guard locked(list_lock_);
  if (--holds_ == 0) me = std::move(held_);
}

void gpu_stream::block_on_oldest() noexcept {
  point_ref kept;
  gpu_point* p = nullptr;
  {
    const std::lock_guard locked(list_lock_);
    p = points_.front();
    if (p == nullptr || p->spoilt_ || device_.over() != nullptr) return;
    kept = point_ref::more(*p);
    device_.begin_block();
  }
  device_.prepare_to_look();
  const gpu_outcome o{device_.api().event_synchronize(p->native()), "cudaEventSynchronize"};
  if (o.failed() && !device_.ends_with(o, name())) spoil_if_first(*p, o);
  kept = point_ref();  // while who shuts down still waits for us: it may go back to the device
  device_.end_block();
}

void gpu_stream::spoil_if_first(gpu_point& p, gpu_outcome why) noexcept {
  const std::lock_guard locked(list_lock_);
  if (points_.front() == &p) p.spoil(why);
}

}  // namespace turnstile::detail
