// gpu_stream.hpp - a stream of a GPU: work that is given to it, points recorded in it, who looks at
// them.
//
// Shape     Points wait in a list, oldest first, from their record until poll tells them.
//
//             give order (order_)   record + append in one step, so the list has its order
//             list (list_lock_)     append at the back, with order_; pop at the front, by poll
//             watched_              the engine knows the stream, which then keeps itself
//
//           The lane in front of it closes it; it ends when it is closed and nothing is pending.
//
// Edges     list_lock_ and order_. What the work before a point wrote: the event's query, which the
//           driver orders, and H1 of gpu_call.hpp.
//
// Progress  Giving work takes order_ for the time of the driver's calls. poll takes only
//           list_lock_, for a list splice, so a thread that the driver blocks does not keep it from
//           looking. Whoever closes the stream takes order_, and so does poll once it is closed and
//           has nothing pending: only they wait for such a thread.
//
// Dangers   Points are told outside both locks, by the one thread that polls, in the list's order.
//           A point whose event failed cannot say when it is reached: the next event that works
//           says it, or the stream that has nothing more to do, or that never answers.
//
// Proof     test/device
//
// Defined in gpu_stream.cpp (giving work, and the end), gpu_copies.cpp, gpu_places.cpp (where
// somebody waits) and gpu_looks.cpp (how far it got).
#pragma once

#include "device/engine.hpp"
#include "device/gpu/gpu_device.hpp"
#include "device/gpu/gpu_point.hpp"

#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/lane.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <string>

namespace turnstile::detail {

class other_errors;

class gpu_stream final : private polled, public std::enable_shared_from_this<gpu_stream> {
 public:
  static std::shared_ptr<gpu_stream> make(gpu_device& on);
  // Somebody else's, which is never destroyed here.
  static std::shared_ptr<gpu_stream> adopt(gpu_device& on, CUstream_st* s);
  ~gpu_stream();

  CUstream_st* native() const noexcept { return native_.load(relaxed); }
  const std::string& name() const noexcept { return name_; }

  // As in lane.hpp.
  void enqueue(std::unique_ptr<lane_work> w);
  void copy(void* to, const void* from, std::size_t bytes);
  point_ref record();
  point_ref record_to_wait();
  void wait(point& p);
  void* allocate(std::size_t bytes);
  void deallocate(void* p) noexcept;
  int begin_submission();
  lane::submitted end_submission(int error_before) noexcept;

  // What was given here, or also what was given to native() by others.
  enum class pending : bool { given, everything };
  // Takes no more work. What was given is still done, and looked for.
  void close(pending looked_for) noexcept;
  // Something is pending, or will be when a body that gives work by itself has ended.
  bool is_in_use() noexcept;
  // Once it is closed: gives the stream back unless something is pending. True: it has.
  bool finish() noexcept;

 private:
  gpu_stream(gpu_device& on, bool is_adopted);

  polled::answer poll() noexcept override;
  bool can_block() const noexcept override;
  void block_on_oldest() noexcept override;
  void hold() noexcept override;
  void let_go() noexcept override;

  template <class F>
  void give(F f);
  template <class F>
  void give_uncaptured(F f);
  gpu_outcome launch(std::unique_ptr<gpu_call>& call);
  void limit_calls() noexcept;
  class loan;
  void take_back(loan& memory) noexcept;
  struct host_copy;
  struct copying;
  gpu_outcome ask_for_end(bool& is_pageable, const void* p) const noexcept;
  gpu_outcome ask_who_copies(copying& c, bool& driver) const noexcept;
  gpu_outcome give_copy(void* to, const void* from, std::size_t bytes);
  gpu_outcome copy_on_host(copying& c);
  gpu_outcome give_piece(const copying& c, std::size_t at, std::size_t n);
  void must_be_open() const;
  gpu_outcome ask_for_capture(bool& yes) const noexcept;
  void refuse_capture() const;
  void refuse_without_event(const point& p) const;
  bool needs_point(pending looked_for) const noexcept;
  bool has_ended() noexcept;
  gpu_outcome synchronize() const noexcept;

  enum class asked_for : bool { by_somebody, here };
  gpu_point* put_point(gpu_outcome& o, asked_for by);
  bool try_to_put_point(gpu_outcome& o) noexcept;
  void put_bare_point(gpu_point& p, asked_for by, gpu_outcome failure = {}) noexcept;
  void must_have_work() const;
  point_ref place_behind_all(gpu_outcome& o, gpu_outcome& again, other_errors& others);
  void append(gpu_point& p) noexcept;
  // The engine looks at it: something is pending.
  bool is_watched() const noexcept;
  bool may_still_call() const noexcept;
  void record_behind_body(lane::submitted& all) noexcept;
  [[nodiscard]] bool wait_instead() noexcept;
  bool are_all_settled() noexcept;
  void owe(std::exception_ptr e) noexcept;

  gpu_point* first_or_let_go(std::shared_ptr<gpu_stream>& me) noexcept;
  gpu_point* first_with_event(gpu_point*& last) noexcept;
  bool is_past() noexcept;
  bool look(bool& past) noexcept;
  bool asks_again() noexcept;
  void spoil_if_first(gpu_point& p, gpu_outcome why) noexcept;
  void spoil(gpu_point& p, gpu_outcome why) noexcept;
  void tell(gpu_point& p) noexcept;
  std::exception_ptr error_of(gpu_point& p) noexcept;

  gpu_device& device_;
  const bool is_adopted_;
  const std::string name_;
  atomic<CUstream_st*> native_{nullptr};  // null again once it is given back

  mutex order_;  // who gives work
  gpu_calls calls_;
  std::exception_ptr owed_;
  void* block_ = nullptr;   // of the device's: copies of pageable memory, one after the other
  bool is_bare_ = false;    // something was given behind the last point
  int submissions_ = 0;     // bodies that give work by themselves
  gpu_point* last_resort_;  // for its end, also without memory
  atomic<bool> is_closed_{false};  // changes under order_

  mutable mutex list_lock_;
  fifo<gpu_point, &gpu_point::next_> points_;
  bool is_telling_ = false;              // one that has left the list is not reached yet
  std::shared_ptr<gpu_stream> watched_;  // itself, as long as the engine knows it
  std::shared_ptr<gpu_stream> held_;     // itself, as long as somebody may block
  int holds_ = 0;

  gpu_point* past_ = nullptr;   // by poll: all up to this one are reached
  int failed_looks_ = 0;        // by poll, at the stream in a row
  std::exception_ptr carried_;  // by poll: the error of points that nobody was given
};

// Calls `f`, which gives an outcome, with its device current and while nobody else gives work.
template <class F>
void gpu_stream::give(F f) {
  device_.must_work();
  gpu_outcome o;
  {
    const std::lock_guard turn(order_);
    must_be_open();
    o = device_.make_current();
    if (!o.failed()) o = f();
  }
  if (!o.failed()) return;
  device_.forget_last_error();
  device_.raise(o, name());
}

// As give; throws instead if the stream is being captured, and the driver hears of nothing.
template <class F>
void gpu_stream::give_uncaptured(F f) {
  bool is_capturing = false;
  give([&]() -> gpu_outcome {
    const gpu_outcome o = ask_for_capture(is_capturing);
    return o.failed() || is_capturing ? o : f();
  });
  if (is_capturing) refuse_capture();
}

}  // namespace turnstile::detail
