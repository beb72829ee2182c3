// idle_look.hpp - what workers look at that have nothing else to do: whether a device has got
// somewhere.
#pragma once

#include <turnstile/detail/atomic.hpp>

#include <cstdint>

namespace turnstile::detail {

enum class [[nodiscard]] idle_look : std::uint8_t {
  nothing,  // to be expected, or somebody else is looking
  pending,  // nothing has happened, but something will
  found,    // something has, and there may be jobs now
};

// Set by lib/device when it is first used, null before. Relaxed: it points to a function.
inline constinit atomic<idle_look (*)() noexcept> look_at_devices{nullptr};

}  // namespace turnstile::detail
