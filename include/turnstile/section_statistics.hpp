// section_statistics.hpp - what a section has done and is doing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace turnstile {

/// A look at one section. Each number is true at some moment during the call; together they are
/// consistent only while nothing happens in the section.
struct section_statistics {
  std::uint64_t executions = 0;  ///< bodies that ran, thrown or not; a guard's hold counts as one
  std::uint64_t withdrawn = 0;   ///< requests that were withdrawn before they started
  std::uint64_t refused = 0;     ///< requests that were never accepted, or not set aside
  std::size_t waiters = 0;       ///< requests queued or set aside now, also a close; see held
  std::size_t most_waiters = 0;  ///< the most there ever were, nearly: what has ended or was
                                 ///< withdrawn may count until its turn in line, and some are
                                 ///< missed where one that was set aside is withdrawn
  bool held = false;             ///< a body runs, a guard is owned, a device works for it, or the
                                 ///< first one queued waits for that, or for an executor
};

}  // namespace turnstile
