// gpu_places.cpp - the places in a stream of a GPU that somebody waits for, or a body ends at.

#include "base/captured.hpp"
#include "device/gpu/gpu_runtime.hpp"
#include "device/gpu/gpu_stream.hpp"
#include "device/gpu/place_errors.hpp"

#include <turnstile/detail/threads.hpp>

#include <chrono>
#include <mutex>
#include <new>
#include <utility>

namespace turnstile::detail {

void gpu_stream::owe(std::exception_ptr e) noexcept {
  other_errors others(name());
  const std::lock_guard turn(order_);
  others.add_behind(owed_, std::move(e));
}

point_ref gpu_stream::record() {
  point_ref end;
  give_uncaptured([&] {
    gpu_outcome o;
    end = point_ref(put_point(o, asked_for::by_somebody));
    return o;
  });
  return end;
}

// By who has its turn. Throws if all is over, also what was given: when the device is lost a
// callable may still run, and a stream that is closed may still have work.
void gpu_stream::must_have_work() const {
  if (!may_still_call()) device_.must_work();
  if (native() == nullptr) throw_shut_down();
}

// By who has its turn. What goes wrong is that place's, unless it ends the device.
point_ref gpu_stream::place_behind_all(gpu_outcome& o, gpu_outcome& again, other_errors& others) {
  bool is_capturing = false;
  o = device_.make_current();
  if (!o.failed()) o = ask_for_capture(is_capturing);
  if (is_capturing) refuse_capture();
  if (is_closed_.load(relaxed)) others.add_behind(owed_, captured(&throw_shut_down));
  point_ref end;
  if (!o.failed()) end = point_ref(put_point(o, asked_for::by_somebody));
  if (end || is_sticky(o.code) || o.code == gpu_errors::runtime_unloading) return end;
  others.add_behind(owed_, device_.error_of(o, name()));
  again = device_.make_current();
  if (!again.failed()) end = point_ref(put_point(again, asked_for::by_somebody));
  return end;
}

// For want of memory it is waited here.
point_ref gpu_stream::record_to_wait() try {
  if (end_by_fork() != nullptr) device_.must_work();  // who has the locks may not be here
  point_ref end;
  gpu_outcome o;
  gpu_outcome again;
  other_errors others(name());
  {
    const std::lock_guard turn(order_);
    must_have_work();
    if (device_.over() == nullptr) end = place_behind_all(o, again, others);
    if (!end) {
      gpu_point& bare = *device_.take_bare_point();
      put_bare_point(bare, asked_for::by_somebody);
      end = point_ref(&bare);
    }
  }
  if (o.failed()) device_.forget_last_error();
  device_.ends_with(o, name());
  device_.ends_with(again, name());
  return end;
} catch (const std::bad_alloc&) {
  if (wait_instead()) throw;
  std::rethrow_exception(device_.over()->error);
}

// By who has its turn, with the device current. The result is the caller's share, if somebody asked
// for it; null: `o` failed.
gpu_point* gpu_stream::put_point(gpu_outcome& o, asked_for by) {
  gpu_point* const p = device_.take_point(o);
  if (p == nullptr) return nullptr;
  o = {device_.api().event_record(p->native(), native()), "cudaEventRecord"};
  if (o.failed()) {
    device_.forget_last_error();
    p->spoil(o);
    device_.give_back(*p);
    return nullptr;
  }
  p->begin(calls_.take(), std::exchange(owed_, nullptr), by == asked_for::here);
  is_bare_ = false;
  if (by == asked_for::by_somebody) p->keep();
  append(*p);
  return p;
}

bool gpu_stream::try_to_put_point(gpu_outcome& o) noexcept try {
  return put_point(o, asked_for::here) != nullptr;
} catch (const std::bad_alloc&) {
  return false;
}

// For what was given and has no point behind it: reached when the stream has nothing more to do.
void gpu_stream::put_bare_point(gpu_point& p, asked_for by, gpu_outcome failure) noexcept {
  p.begin(calls_.take(), std::exchange(owed_, nullptr), by == asked_for::here);
  p.failure_ = failure;
  if (by == asked_for::by_somebody) p.keep();
  append(p);
}

void gpu_stream::append(gpu_point& p) noexcept {
  {
    const std::lock_guard locked(list_lock_);
    points_.push(p);
    if (watched_ != nullptr) return;
    watched_ = shared_from_this();
  }
  engine::the().watch(*this);
}

int gpu_stream::begin_submission() {
  give_uncaptured([&] {
    ++submissions_;
    return gpu_outcome();
  });
  return device_.api().peek_at_last_error();
}

// An error that has been told is taken from the thread, or the next one of the same number would
// not be seen. Not one that is beside an older one: that may be of a body around this one, unless
// it is nobody's. That something is not ready, which the body may have asked, is no error.
lane::submitted gpu_stream::end_submission(int error_before) noexcept {
  lane::submitted all;
  if (device_.over() == nullptr) {
    const int now = device_.api().peek_at_last_error();
    if (now != error_before && now != gpu_errors::success) {
      if (now != gpu_errors::not_ready) {
        all.error = device_.error_of({now, "a call of the body"}, name());
      }
      if (is_nobodys(error_before)) device_.forget_last_error();
    }
  }
  record_behind_body(all);
  return all;
}

// What was given has to be ordered, or done. That the device is lost takes the place of an error of
// the body's; the point says it, if a callable may still run there.
void gpu_stream::record_behind_body(lane::submitted& all) noexcept try {
  if (const gpu_end* const forked = end_by_fork()) {  // who has the locks may not be here
    all.error = forked->error;
    return;
  }
  gpu_outcome o;
  gpu_outcome again;
  bool is_over = false;
  {
    const std::lock_guard turn(order_);
    --submissions_;
    is_over = device_.over() != nullptr;
    if (!is_over) {
      if (o = device_.make_current(); !o.failed()) {
        all.end = point_ref(put_point(o, asked_for::by_somebody));
      }
      if (all.end) return;
      again = device_.make_current();
      if (!again.failed()) all.end = point_ref(put_point(again, asked_for::by_somebody));
      if (!all.end) again = synchronize();
      is_over = is_final(again.code);
    }
    if (!all.end && (is_over ? may_still_call() : again.failed())) {
      gpu_point& bare = *device_.take_bare_point();
      put_bare_point(bare, asked_for::by_somebody, is_over ? again : gpu_outcome());
      all.end = point_ref(&bare);
    }
  }
  device_.forget_last_error();
  device_.ends_with(again, name());
  if (is_over) {
    all.error = all.end ? nullptr : device_.over()->error;
    return;
  }
  std::exception_ptr e = device_.failure(o, name());
  if (all.error == nullptr || device_.over() != nullptr) all.error = std::move(e);
} catch (...) {
  std::exception_ptr why = std::current_exception();
  if (!wait_instead()) why = device_.over()->error;
  if (all.error == nullptr || device_.over() != nullptr) all.error = std::move(why);
}

// For want of memory. False: the device is lost, and no callable runs there any more.
bool gpu_stream::wait_instead() noexcept {
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    if (device_.over() == nullptr && native() != nullptr) o = synchronize();
  }
  if (o.failed()) {
    device_.forget_last_error();
    device_.ends_with(o, name());
  }
  if (device_.over() == nullptr) return true;
  while (!are_all_settled()) sleep_for(std::chrono::microseconds(50));
  return false;
}

bool gpu_stream::are_all_settled() noexcept {
  const std::lock_guard turn(order_);
  const std::lock_guard locked(list_lock_);
  bool all = calls_.are_settled();
  for (gpu_point* p = points_.front(); p != nullptr; p = p->next_) all &= p->calls_.are_settled();
  return all;
}

}  // namespace turnstile::detail
