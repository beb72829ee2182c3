// gate.cpp - letting requests into a section whose waiters are limited. The protocol is in the
// header.

#include "strand/gate.hpp"

#include <mutex>
#include <utility>

namespace turnstile::detail {

bool gate::enter() noexcept {
  const std::lock_guard held(lock_);
  if (!is_free()) return false;
  inside_ = inside_ + 1;
  return true;
}

bool gate::enter_if_empty() noexcept {
  const std::lock_guard held(lock_);
  if (inside_ != 0 || !is_free()) return false;
  inside_ = inside_ + 1;
  return true;
}

bool gate::enter_or_wait(stand_in& s) noexcept {
  const std::lock_guard held(lock_);
  if (is_free()) {
    inside_ = inside_ + 1;
    return true;
  }
  s.stands = stand_in::position::outside;
  outside_.push(s);
  n_outside_ = n_outside_ + 1;
  if (n_outside_ > sweep_above_) sweep();
  return false;
}

// Under the lock. Those withdrawn go also where nobody is let in for long; each sweep goes through
// twice as many as were left by the one before, and some.
void gate::sweep() noexcept {
  fifo<stand_in, &stand_in::younger> left;
  std::size_t n = 0;
  while (!outside_.empty()) {
    stand_in& s = *outside_.pop();
    if (s.is_withdrawn()) {
      s.pass_over();
    } else {
      left.push(s);
      n = n + 1;
    }
  }
  outside_ = left;
  n_outside_ = n;
  sweep_above_ = 2 * n + spared_outside;
}

void gate::leave() noexcept {
  const std::lock_guard held(lock_);
  inside_ = inside_ - 1;
}

void gate::come_back() noexcept {
  const std::lock_guard held(lock_);
  inside_ = inside_ + 1;
}

bool gate::has_room_aside() const noexcept {
  if (may_wait_) return true;
  const std::lock_guard held(lock_);
  return inside_ > 1 || aside_ < most_;  // behind it nobody waits who was not counted
}

void gate::set_aside() noexcept {
  const std::lock_guard held(lock_);
  aside_ = aside_ + 1;
}

void gate::leave_aside() noexcept {
  const std::lock_guard held(lock_);
  aside_ = aside_ - 1;
}

stand_in* gate::first_to_let_in() noexcept {
  const std::lock_guard held(lock_);
  if (is_letting_in_) return nullptr;
  is_letting_in_ = true;
  return take_next();
}

stand_in* gate::next_to_let_in(bool& closes) noexcept {
  const std::lock_guard held(lock_);
  stand_in* const s = take_next();
  if (s == nullptr) closes = std::exchange(closes_, false);
  return s;
}

stand_in* gate::first_to_refuse(bool& left) noexcept {
  const std::lock_guard held(lock_);
  is_closed_ = true;
  left = closes_ = is_letting_in_;
  if (left) return nullptr;
  is_letting_in_ = true;
  return take_next();
}

// Under the lock, by who lets in. Null: that is over.
stand_in* gate::take_next() noexcept {
  while (!outside_.empty() && has_room()) {
    stand_in& s = *outside_.pop();
    n_outside_ = n_outside_ - 1;
    if (s.pin()) {
      s.stands = stand_in::position::line;
      inside_ = inside_ + 1;
      return &s;
    }
    s.pass_over();  // withdrawn
  }
  is_letting_in_ = false;
  return nullptr;
}

}  // namespace turnstile::detail
