// recycled.cpp - where a thread's spare frames begin and end.

#include "base/thread_end.hpp"

#include <turnstile/detail/recycled.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <utility>

namespace turnstile::detail {

namespace {

void end_spare_frames() noexcept { here().frames.give_back_all(); }

}  // namespace

void spare_frames::begin() noexcept {
  at_thread_end<&end_spare_frames>::arm();
  state_ = state::in_use;
  for (std::size_t n = step; n <= largest; n += step) {
    of_size(n).room = static_cast<std::uint32_t>(most_bytes / n);
  }
}

void spare_frames::give_to_full(void* p, std::size_t n) noexcept {
  if (state_ != state::unused) return ::operator delete(p);
  begin();
  push(of_size(n), p);
}

void spare_frames::give_back_all() noexcept {
  state_ = state::over;
  for (list& l : lists_) {
    l.room = 0;
    spare* s = std::exchange(l.first, nullptr);
    while (s != nullptr) ::operator delete(std::exchange(s, s->next));
  }
}

}  // namespace turnstile::detail
