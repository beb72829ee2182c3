// point.hpp - a place in the order of a stream, and who waits until the stream gets there.
//
// Shape     word = the waiters, newest first | reached
//
//             list --add----> longer list      by whoever waits
//             list --reach--> reached          by the stream, once; it then tells those that waited
//
//           A point is shared by the stream it was recorded in, by events, and by everyone who
//           waits; the last of them gives it back to where it came from.
//
// Edges     P1  exchange(acq_rel) in reach -> load(acquire) in is_reached and, failing, in add: the
//               error, and what the work before it wrote
//           P2  CAS(release) in add -> exchange(acq_rel) in reach: the waiter
//           P3  fetch_sub(acq_rel) in drop: the last one sees what all others did with it
//
// Progress  add is lock-free; the rest is wait-free, but for what the waiters do when they are
//           told.
//
// Dangers   Once a waiter is told it may be gone: its link is read before. After add said true,
//           whoever waits may be gone.
//
// Proof     test/device; test/schedule (device)
#pragma once

#include <turnstile/detail/atomic.hpp>

#include <cstdint>
#include <exception>
#include <utility>

struct CUevent_st;

namespace turnstile::detail {

class point;

// Lives in what waits.
class point_waiter {
 protected:
  using call = void (*)(point_waiter&) noexcept;

  // Called on the thread that noticed, never inside a lock. It runs no code of users.
  explicit point_waiter(call reached) noexcept : reached_(reached) {}

 private:
  friend class point;

  guarded<point_waiter*> next_{nullptr};  // P2
  const call reached_;
};

class point {
 public:
  point(const point&) = delete;
  point& operator=(const point&) = delete;

  bool is_reached() const noexcept { return waiters_.load(acquire) == reached_mark; }  // P1
  // True: `w` is told when it is reached, and may be gone. False: it is reached.
  [[nodiscard]] bool add(point_waiter& w) noexcept;

  // Once it is reached: what went wrong before it.
  bool failed() const noexcept { return error_ != nullptr; }
  // Told to somebody; or only looked at, which leaves it to others.
  std::exception_ptr error() const noexcept {
    if (error_ != nullptr) seen_.store(true, relaxed);
    return error_;
  }
  std::exception_ptr peek() const noexcept { return error_; }

  // What CUDA calls it; null on the host device.
  virtual CUevent_st* native() const noexcept { return nullptr; }

  void keep() noexcept { shares_.fetch_add(1, relaxed); }
  void drop() noexcept {
    if (shares_.fetch_sub(1, acq_rel) == 1) end();  // P3
  }

 protected:
  point() noexcept = default;
  virtual ~point() = default;

  // By the stream, once, which gives up its share with it.
  void reach(std::exception_ptr error) noexcept;
  // Before it is recorded again, with one share.
  void renew() noexcept;

 private:
  static constexpr std::uintptr_t reached_mark = 1;

  // Nobody has it any more.
  virtual void recycle() noexcept = 0;
  void end() noexcept;

  atomic<std::uintptr_t> waiters_{0};
  atomic<std::uint32_t> shares_{1};
  guarded<std::exception_ptr> error_;  // P1
  mutable statistic<bool> seen_{false};
};

// A share of a point, or of a lane.
template <class T>
class counted_ref {
 public:
  counted_ref() noexcept = default;
  // Takes over a share.
  explicit counted_ref(T* owned) noexcept : it_(owned) {}
  static counted_ref more(T& it) noexcept {
    it.keep();
    return counted_ref(&it);
  }
  counted_ref(const counted_ref& other) noexcept : it_(other.it_) {
    if (it_ != nullptr) it_->keep();
  }
  counted_ref(counted_ref&& other) noexcept : it_(std::exchange(other.it_, nullptr)) {}
  counted_ref& operator=(counted_ref other) noexcept {
    std::swap(it_, other.it_);
    return *this;
  }
  ~counted_ref() {
    if (it_ != nullptr) it_->drop();
  }

  T* get() const noexcept { return it_; }
  T& operator*() const noexcept { return *it_; }
  T* operator->() const noexcept { return it_; }
  explicit operator bool() const noexcept { return it_ != nullptr; }
  T* release() noexcept { return std::exchange(it_, nullptr); }

 private:
  T* it_ = nullptr;
};

using point_ref = counted_ref<point>;

}  // namespace turnstile::detail
