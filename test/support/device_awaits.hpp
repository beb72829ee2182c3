// device_awaits.hpp - what awaiting a device takes, once everything is there.
#pragma once

#include <turnstile/turnstile.hpp>

namespace support {

// On `pool`, awaits the stream and runs executions that only submit there. Gives how much `count`
// has grown by the second `each` of them: by then what is kept for the next one is there.
template <class Count>
long grown_by_awaits(turnstile::thread_pool& pool, turnstile::critical_section& cs,
                     turnstile::stream& s, int each, const Count& count) {
  using namespace turnstile;
  long grown = -1;
  sync_wait(schedule_on(
      pool, [](critical_section& c, stream& on, int half, const Count& n, long& out) -> task<> {
        const auto submits = [](stream&) {};
        long before = 0;
        for (int i = 0; i != 2 * half; ++i) {
          if (i == half) before = n;
          co_await on.completion();
          co_await c.execute(submits, {.on = &on});
        }
        out = n - before;
      }(cs, s, each, count, grown)));
  return grown;
}

}  // namespace support
