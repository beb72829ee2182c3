// section_guard.hpp - a section held until the guard says otherwise.
#pragma once

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
  ~section_guard() { unlock(); }

  /// Releases the section. Nothing if the guard is empty.
  void unlock() noexcept {
    detach();
    if (detail::section_core* const s = std::exchange(section_, nullptr)) s->release_hold();
  }

  /// The section stays owned, by nobody in particular: re-entry through it is no longer detected.
  void detach() noexcept {
    if (detail::hold_frame* const h = std::exchange(hold_, nullptr)) detail::let_go(*h);
  }

  bool owns_lock() const noexcept { return section_ != nullptr; }
  explicit operator bool() const noexcept { return owns_lock(); }

 private:
  friend struct detail::guard_access;

  section_guard(detail::section_core& s, detail::hold_frame& h) noexcept : section_(&s), hold_(&h) {
    detail::push_hold(h);
  }

  detail::section_core* section_ = nullptr;
  detail::hold_frame* hold_ = nullptr;
};

namespace detail {

// Makes guards, once the section is owned.
struct guard_access {
  static section_guard own(section_core& s, hold_frame& h) noexcept { return {s, h}; }
};

}  // namespace detail
}  // namespace turnstile
