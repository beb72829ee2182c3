// atomic.hpp - the library's seam for atomics, with every operation given to the checker.
//
// Outside an execution (static objects, the test program itself) they are plain values.
#pragma once

#include "schedule/checker/world.hpp"

#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

using enum std::memory_order;

template <class T>
class atomic {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= sizeof(std::uint64_t));
  using site = std::source_location;
  using order = std::memory_order;
  // What is added to a pointer or a number.
  using difference = std::conditional_t<std::is_pointer_v<T>, std::ptrdiff_t, T>;

 public:
  constexpr atomic() noexcept : atomic(T{}) {}
  constexpr atomic(T value) noexcept : value_(value) {
    if (!std::is_constant_evaluated()) schedule::begin_life(&value_);
  }
  constexpr ~atomic() {
    if (!std::is_constant_evaluated()) schedule::end_life(&value_);
  }
  atomic(const atomic&) = delete;
  atomic& operator=(const atomic&) = delete;

  T load(order o = seq_cst, const site& at = site::current()) const noexcept {
    if (!schedule::active()) return value_;
    return from(schedule::load(place(), o, at));
  }

  void store(T value, order o = seq_cst, const site& at = site::current()) noexcept {
    if (schedule::active()) schedule::store(place(), bits(value), o, at);
    value_ = value;
  }

  T exchange(T value, order o = seq_cst, const site& at = site::current()) noexcept {
    return change([value](T) { return value; }, "exchange", o, at);
  }
  T fetch_add(difference n, order o = seq_cst, const site& at = site::current()) noexcept {
    return change([n](T old) { return static_cast<T>(old + n); }, "fetch_add", o, at);
  }
  T fetch_sub(difference n, order o = seq_cst, const site& at = site::current()) noexcept {
    return change([n](T old) { return static_cast<T>(old - n); }, "fetch_sub", o, at);
  }
  T fetch_or(T n, order o = seq_cst, const site& at = site::current()) noexcept {
    return change([n](T old) { return static_cast<T>(old | n); }, "fetch_or", o, at);
  }
  T fetch_and(T n, order o = seq_cst, const site& at = site::current()) noexcept {
    return change([n](T old) { return static_cast<T>(old & n); }, "fetch_and", o, at);
  }

  bool compare_exchange_strong(T& expected, T desired, order success, order failure,
                               const site& at = site::current()) noexcept {
    return swap_if(expected, desired, {success, failure, false}, at);
  }
  bool compare_exchange_strong(T& expected, T desired, order both = seq_cst,
                               const site& at = site::current()) noexcept {
    return swap_if(expected, desired, {both, without_release(both), false}, at);
  }
  bool compare_exchange_weak(T& expected, T desired, order success, order failure,
                             const site& at = site::current()) noexcept {
    return swap_if(expected, desired, {success, failure, true}, at);
  }
  bool compare_exchange_weak(T& expected, T desired, order both = seq_cst,
                             const site& at = site::current()) noexcept {
    return swap_if(expected, desired, {both, without_release(both), true}, at);
  }

  void wait(T old, order o = seq_cst, const site& at = site::current()) const noexcept {
    schedule::wait(place(), bits(old), o, at);
  }
  void notify_one(const site& at = site::current()) noexcept { schedule::notify(&value_, 1, at); }
  void notify_all(const site& at = site::current()) noexcept {
    schedule::notify(&value_, schedule::max_threads, at);
  }

 private:
  static constexpr order without_release(order o) noexcept {
    return o == acq_rel ? acquire : o == release ? relaxed : o;
  }

  static std::uint64_t bits(T value) noexcept {
    std::uint64_t all = 0;
    std::memcpy(&all, &value, sizeof value);
    return all;
  }
  static T from(std::uint64_t all) noexcept {
    T value;
    std::memcpy(&value, &all, sizeof value);
    return value;
  }

  // Where it is, and what it is worth if the checker does not know it yet.
  schedule::cell place() const noexcept { return {&value_, bits(value_)}; }

  template <class F>
  T change(F f, const char* what, order o, const site& at) noexcept {
    const T old = schedule::active() ? from(schedule::begin_change(place(), o, what, at)) : value_;
    const T now = f(old);
    if (schedule::active()) schedule::finish_change(bits(now));
    value_ = now;
    return old;
  }

  bool swap_if(T& expected, T desired, schedule::swap_orders orders, const site& at) noexcept {
    if (!schedule::active()) {
      const bool same = bits(value_) == bits(expected);
      (same ? value_ : expected) = same ? desired : value_;
      return same;
    }
    std::uint64_t seen = bits(expected);
    const bool done = schedule::swap_if(place(), seen, bits(desired), orders, at);
    if (done) {
      value_ = desired;
    } else {
      expected = from(seen);
    }
    return done;
  }

  T value_;
};

// A plain field. Two accesses of which one writes must be ordered by what the atomics say.
template <class T>
class guarded {
 public:
  constexpr guarded() noexcept : guarded(T{}) {}
  constexpr guarded(T value) noexcept : value_(value) {
    if (!std::is_constant_evaluated()) schedule::begin_life(this);
  }
  guarded(const guarded& other) noexcept : guarded(static_cast<T>(other)) {}
  constexpr ~guarded() {
    if (!std::is_constant_evaluated()) schedule::end_life(this);
  }

  [[gnu::always_inline]] operator T() const noexcept {
    schedule::read_plain(this);
    return value_;
  }
  [[gnu::always_inline]] T operator->() const noexcept
    requires std::is_pointer_v<T>
  {
    return static_cast<T>(*this);
  }
  [[gnu::always_inline]] guarded& operator=(T value) noexcept {
    schedule::write_plain(this);
    value_ = value;
    return *this;
  }
  [[gnu::always_inline]] guarded& operator=(const guarded& other) noexcept {
    return *this = static_cast<T>(other);
  }

 private:
  T value_;
};

// Whoever uses one says relaxed, and what it reads decides nothing: so threads do not switch here.
template <class T>
class statistic {
  using order = std::memory_order;

 public:
  constexpr statistic(T value) noexcept : value_(value) {
    if (!std::is_constant_evaluated()) schedule::begin_life(this);
  }
  constexpr ~statistic() {
    if (!std::is_constant_evaluated()) schedule::end_life(this);
  }
  statistic(const statistic&) = delete;
  statistic& operator=(const statistic&) = delete;

  T load(order o) const noexcept { return touch(o), value_; }
  void store(T value, order o) noexcept { touch(o), value_ = value; }
  T fetch_add(T n, order o) noexcept { return touch(o), std::exchange(value_, value_ + n); }
  T fetch_sub(T n, order o) noexcept { return touch(o), std::exchange(value_, value_ - n); }
  bool compare_exchange_weak(T& expected, T desired, order success, order) noexcept {
    touch(success);
    const bool same = value_ == expected;
    (same ? value_ : expected) = same ? desired : value_;
    return same;
  }

 private:
  void touch(order o) const noexcept { schedule::use_statistic(this, o); }

  T value_;
};

inline void pause() noexcept { schedule::pause(); }

}  // namespace turnstile::detail
