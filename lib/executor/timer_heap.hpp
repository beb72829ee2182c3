// timer_heap.hpp - timers by time, and those of one time in the order they were started.
//
// A pairing heap, linked through the timers: adding is constant, taking the first one or any other
// logarithmic on average. Nothing here is shared: the queue's lock is its owner's.
//
// Source  Fredman, Sedgewick, Sleator and Tarjan (1986), the variant that pairs twice.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/timer.hpp>

#include <utility>

namespace turnstile::detail {

class timer_heap {
 public:
  timer* first() const noexcept { return root_; }

  void add(timer& t) noexcept {
    t.child_ = nullptr;
    root_ = melded(root_, alone(t));
  }

  void remove(timer& t) noexcept {
    timer* const below = paired(t.child_);
    if (root_ == &t) {
      root_ = below;
    } else {
      unlink(t);
      root_ = melded(root_, below);
    }
  }

 private:
  static timer* alone(timer& t) noexcept {
    t.next_ = nullptr;
    t.previous_ = nullptr;
    return &t;
  }

  static bool is_before(const timer& a, const timer& b) noexcept {
    const time_point of_a = a.at_;
    const time_point of_b = b.at_;
    return of_a < of_b || (of_a == of_b && a.number_ < b.number_);
  }

  // Of two heaps, either of which may be empty.
  static timer* melded(timer* a, timer* b) noexcept {
    if (a == nullptr) return b;
    if (b == nullptr) return a;
    if (is_before(*b, *a)) std::swap(a, b);
    timer* const below = a->child_;
    b->next_ = below;
    b->previous_ = a;
    if (below != nullptr) below->previous_ = b;
    a->child_ = b;
    return a;
  }

  // Neighbours first, from left to right, then all of those from right to left.
  static timer* paired(timer* first) noexcept {
    timer* pairs = nullptr;  // the last one first
    while (first != nullptr) {
      timer* const second = first->next_;
      timer* const others = second == nullptr ? nullptr : second->next_;
      timer* const pair = melded(alone(*first), second == nullptr ? nullptr : alone(*second));
      pair->next_ = pairs;
      pairs = pair;
      first = others;
    }
    timer* all = nullptr;
    while (pairs != nullptr) {
      timer* const before = pairs->next_;
      all = melded(alone(*pairs), all);
      pairs = before;
    }
    return all;
  }

  // A timer that is not the first one, with those below it.
  static void unlink(timer& t) noexcept {
    timer* const before = t.previous_;
    timer* const after = t.next_;
    if (before->child_ == &t) {
      before->child_ = after;
    } else {
      before->next_ = after;
    }
    if (after != nullptr) after->previous_ = before;
  }

  guarded<timer*> root_{nullptr};
};

}  // namespace turnstile::detail
