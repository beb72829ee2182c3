// fifo.hpp - what has its link in itself: a list, first in, first out; and a chain, turned round.
//
// By one owner, or under the caller's lock. Who else touched a link before is ordered by what gives
// the list, or the chain, from one to the next: so all of it is guarded.
#pragma once

#include <turnstile/detail/atomic.hpp>

namespace turnstile::detail {

template <class T, guarded<T*> T::* Next>
class fifo {
 public:
  bool empty() const noexcept { return first_ == nullptr; }
  T* front() const noexcept { return first_; }  // null: it is empty
  T* back() const noexcept { return last_; }    // only if it is not empty

  void push(T& one) noexcept { append(one, one); }
  // A chain from `first` to `last`, in that order.
  void append(T& first, T& last) noexcept {
    last.*Next = nullptr;
    *(first_ == nullptr ? &first_ : &(back()->*Next)) = &first;
    last_ = &last;
  }
  // Null: it is empty. The link was read: what is taken may end.
  T* pop() noexcept {
    T* const one = first_;
    if (one != nullptr) first_ = one->*Next;
    return one;
  }

 private:
  guarded<T*> first_{nullptr};
  guarded<T*> last_{nullptr};
};

// A chain, the other way: one that was pushed at its head comes oldest first.
template <class T, guarded<T*> T::* Next>
T* reversed(T* newest) noexcept {
  T* oldest = nullptr;
  while (newest != nullptr) {
    T* const older = newest->*Next;
    newest->*Next = oldest;
    oldest = newest;
    newest = older;
  }
  return oldest;
}

}  // namespace turnstile::detail
