// fiber_options.hpp - how a fiber is made.
#pragma once

#include <cstddef>
#include <string_view>

namespace turnstile {

/// The options of spawn_fiber. Read inside the call it is passed to. Of a stack's bytes the library
/// takes up to 3 KiB.
struct fiber_options {
  std::string_view name = {};      ///< label in errors and reports; must outlive the fiber
  std::size_t stack_size = 65536;  ///< bytes; rounded up to a power of two; at least 16384
  bool stoppable = false;          ///< its waits in sections' lines end at once after request_stop
};

}  // namespace turnstile
