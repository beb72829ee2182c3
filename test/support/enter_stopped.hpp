// enter_stopped.hpp - asks for a section and never waits for it.
#pragma once

#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#include <stop_token>

namespace support {

// Refused as re-entry, else as stopped.
inline turnstile::task<> enter_stopped(turnstile::critical_section& cs) {
  std::stop_source stopped;
  stopped.request_stop();
  co_await cs.execute([] {}, {.stop = stopped.get_token()});
}

}  // namespace support
