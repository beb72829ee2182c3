// hold.hpp - the common way of a guard's frame: made of the last one of its section, put on top of
// the calling chain, and let go from there. Kept inline for bench/uncontended (guards). What else
// becomes of it is in lib/registry/chain.cpp.
#pragma once

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/thread_state.hpp>

#include <type_traits>
#include <utility>

namespace turnstile::detail {

// As new_hold. What a guard of this section left behind is as good as new: a section's name and
// number stay.
TURNSTILE_INLINE hold_frame* make_hold(thread_state& t, const section_core& s, const site& at) {
  hold_frame*& spare = t.spare_hold;
  hold_frame* const h = spare != nullptr && spare->section == &s && spare->number == s.id()
                            ? std::exchange(spare, nullptr)
                            : new_hold(s);
  h->place.copy_fresh(at);
  return h;
}

// Its guard has come first, and arrive gave `line`: nothing else is told of it.
template <class Place>
TURNSTILE_INLINE void note_first(hold_frame& h, Place line) noexcept {
  if constexpr (!std::is_empty_v<Place>) h.line = line;  // not every queue gives one
  h.came = hold_frame::way::first;
}
template <class Place = section_core::place>
TURNSTILE_INLINE Place line_of_first(const hold_frame& h) noexcept {
  if constexpr (std::is_empty_v<Place>) {
    return {};
  } else {
    return h.line;
  }
}

// Its guard has entered what the thread of `k` keeps.
TURNSTILE_INLINE void note_kept(hold_frame& h, keeper& k) noexcept {
  h.inside = &k;
  h.came = hold_frame::way::kept;
}

// On top of the calling chain.
TURNSTILE_INLINE void push_hold(thread_state& t, hold_frame& h) noexcept {
  chain_top& top = t.chain;
  // The thread's share of the old top becomes the frame's.
  h.parent = is_hold(top) ? without_gone() : static_cast<chain_frame*>(top);
  h.mask = mask_of(h.section) | (top == nullptr ? 0 : top->mask);
  top = &h;
}

// On top of the calling chain, and nobody else has a share but the guard: who has one may give
// others some, and nobody else may.
inline bool is_ours_alone(const thread_state& t, const hold_frame& h) noexcept {
  return t.chain == &h && h.shares.load(acquire) == 2;  // E1
}

// Such a one.
inline void take_off(thread_state& t, const hold_frame& h) noexcept {
  t.chain = h.parent;  // the frame's share becomes the thread's
  if (is_hold(t.chain)) innermost_frame();
}

// Of a guard.
TURNSTILE_INLINE void let_go(thread_state& t, hold_frame& h) noexcept {
  if (!t.keeps_spare_hold || t.spare_hold != nullptr || !is_ours_alone(t, h)) [[unlikely]]
    return let_go_anywhere(h);
  take_off(t, h);
  t.spare_hold = &h;  // its shares are those that it will have again
}

}  // namespace turnstile::detail
