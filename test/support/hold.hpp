// hold.hpp - a section kept busy by nobody in particular, so that the test itself may ask for it.
#pragma once

#include <turnstile/critical_section.hpp>

#include <thread>
#include <utility>

namespace support {

inline turnstile::section_guard hold(turnstile::critical_section& cs) {
  turnstile::section_guard guard = std::move(cs.try_lock().value());
  guard.detach();
  return guard;
}

inline void wait_for_waiters(const turnstile::critical_section& cs, std::size_t n) {
  while (cs.statistics().waiters != n) std::this_thread::yield();
}

}  // namespace support
