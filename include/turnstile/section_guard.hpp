// section_guard.hpp - a section held until the guard says otherwise.
#pragma once

#include <turnstile/detail/hold.hpp>
#include <turnstile/detail/section_core.hpp>

#include <utility>

namespace turnstile {

namespace detail {
struct guard_access;
}

/// Owns a section, as given by `co_await cs.lock()` and `cs.try_lock()`. Empty by default.
///
/// Threads    used by one thread at a time; may be unlocked on any thread
/// Order      the next request in line follows; no later one overtakes it
/// Memory     what the owner wrote is seen by every later body
/// Runs on    unlock may run other bodies: it serves what waits, up to a budget
/// Lifetime   the section must outlive an owned guard, and must not end while the acquiring chain
///            of awaits touches a variable or a resource. While owned, that chain holds the
///            section: entering it again from there is refused
class section_guard {
 public:
  section_guard() noexcept = default;
  section_guard(section_guard&& other) noexcept
      : section_(std::exchange(other.section_, nullptr)),
        hold_(std::exchange(other.hold_, nullptr)) {}
  section_guard& operator=(section_guard&& other) noexcept {
    if (this != &other) {
      unlock();
      section_ = std::exchange(other.section_, nullptr);
      hold_ = std::exchange(other.hold_, nullptr);
    }
    return *this;
  }
  TURNSTILE_INLINE ~section_guard() {
    if (section_ != nullptr) release(section_, hold_);
  }

  /// Releases the section. Nothing if the guard is empty.
  TURNSTILE_INLINE void unlock() noexcept {
    if (section_ == nullptr) return;
    detail::hold_frame* const h = std::exchange(hold_, nullptr);
    release(std::exchange(section_, nullptr), h);
  }

  /// The section stays owned, by nobody in particular: re-entry through it is no longer detected.
  void detach() noexcept {
    if (hold_ == nullptr) return;
    switch (hold_->came) {
      case detail::hold_frame::way::in_line: break;
      case detail::hold_frame::way::first:
        section_->hold_first(detail::line_of_first(*hold_));
        break;
      case detail::hold_frame::way::kept: section_->hold_kept(*hold_->inside);
    }
    detail::let_go(detail::here(), *std::exchange(hold_, nullptr));
  }

  bool owns_lock() const noexcept { return section_ != nullptr; }
  explicit operator bool() const noexcept { return owns_lock(); }

 private:
  friend struct detail::guard_access;

  section_guard(detail::section_core& s, detail::hold_frame& h, detail::thread_state& t) noexcept
      : section_(&s), hold_(&h) {
    detail::push_hold(t, h);
  }

  TURNSTILE_INLINE static void release(detail::section_core* s, detail::hold_frame* h) noexcept {
    using way = detail::hold_frame::way;
    if (h == nullptr || h->came == way::in_line) [[unlikely]]
      return release_in_line(s, h);
    detail::thread_state& t = detail::here();
    const bool is_kept = h->came == way::kept;
    detail::keeper* const by = h->inside;
    const detail::section_core::place line = detail::line_of_first(*h);
    detail::let_go(t, *h);
    if (is_kept) return s->release_kept(*by, t);
    s->release_first(line, t);
  }
  // What the queue knows to be held.
  TURNSTILE_COLD static void release_in_line(detail::section_core* s,
                                             detail::hold_frame* h) noexcept {
    if (h != nullptr) detail::let_go(detail::here(), *h);
    s->release_hold();
  }

  detail::section_core* section_ = nullptr;
  detail::hold_frame* hold_ = nullptr;
};

namespace detail {

// Makes guards, once the section is owned.
struct guard_access {
  static section_guard own(section_core& s, hold_frame& h, thread_state& t) noexcept {
    return {s, h, t};
  }
  // As unlock, where others' bodies may not run before the caller goes on.
  static void unlock_to_others(section_guard& g) noexcept {
    g.detach();
    std::exchange(g.section_, nullptr)->release_to_others();
  }
};

}  // namespace detail
}  // namespace turnstile
