// engine.cpp - looking at lanes. The protocol is in the header.

#include "device/engine.hpp"

#include "device/watch.hpp"

#include <cstddef>
#include <new>

namespace turnstile::detail {

engine::engine() noexcept { look_at_devices.store(&look, relaxed); }

// Never ended: workers of any pool may look at it until the process ends. And it takes no memory:
// when it is needed first work has been given, and that must not fail.
engine& engine::the() noexcept {
  alignas(engine) static std::byte place[sizeof(engine)];
  static engine& it = *::new (static_cast<void*>(place)) engine;
  return it;
}

void engine::watch(polled& l) noexcept {
  polled* newest = coming_.load(relaxed);
  do {
    l.next_ = newest;
  } while (!coming_.compare_exchange_weak(newest, &l, release, relaxed));  // E3
  pending_.fetch_add(1, seq_cst);     // E2
  lanes_ever_.fetch_add(1, seq_cst);  // E2
  wake_watch();
}

bool engine::poll() noexcept { return try_poll() == idle_look::found; }

idle_look engine::look() noexcept { return the().try_poll(); }

idle_look engine::try_poll() noexcept {
  if (pending_.load(relaxed) == 0) return idle_look::nothing;
  if (polling_.load(relaxed) || polling_.exchange(true, acquire)) return idle_look::nothing;  // E1
  const bool found = poll_all();
  polling_.store(false, release);  // E1
  looks_.fetch_add(1, relaxed);
  return found ? idle_look::found : idle_look::pending;
}

void engine::take_those_that_come() noexcept {
  polled* coming = coming_.exchange(nullptr, acquire);  // E3
  while (coming != nullptr) {
    polled& l = *coming;
    coming = l.next_;
    l.next_ = lanes_;
    lanes_ = &l;
  }
}

bool engine::poll_all() noexcept {
  take_those_that_come();
  bool found = false;
  polled* all = lanes_;
  lanes_ = nullptr;
  while (all != nullptr) {
    polled& l = *all;
    all = l.next_;
    const polled::answer says = l.poll();  // l may be gone
    found |= says.reached_any;
    if (says.is_pending) {
      l.next_ = lanes_;
      lanes_ = &l;
    } else {
      pending_.fetch_sub(1, relaxed);
    }
  }
  return found;
}

polled* engine::hold_only_one() noexcept {
  if (pending_.load(relaxed) != 1 || polling_.exchange(true, acquire)) return nullptr;  // E1
  take_those_that_come();
  polled* const l = lanes_;
  const bool can = l != nullptr && l->next_ == nullptr && l->can_block();
  if (can) l->hold();
  polling_.store(false, release);  // E1
  return can ? l : nullptr;
}

}  // namespace turnstile::detail
