// own_change.hpp - a variable that is used by the function that changes it.
#pragma once

#include <turnstile/detail/config.hpp>
#include <turnstile/detail/thread_state.hpp>

namespace turnstile::detail {

// Whether this thread is inside a function that changes the variable whose value is at `place`.
inline bool is_changed_here(const void* place) noexcept {
  for (const written_here* w = here().writes; w != nullptr; w = w->outer) {
    if (w->place == place) return true;
  }
  return false;
}

[[noreturn]] TURNSTILE_COLD void refuse_inside_its_own_change();
inline void refuse_if_changed_here(const void* place) {
  if (is_changed_here(place)) [[unlikely]]
    refuse_inside_its_own_change();
}

// In this scope a function changes it.
class own_change : private written_here {
 public:
  explicit own_change(void* variable) noexcept : written_here{variable, here().writes} {
    here().writes = this;
  }
  ~own_change() { here().writes = outer; }
  own_change(const own_change&) = delete;
  own_change& operator=(const own_change&) = delete;
};

}  // namespace turnstile::detail
