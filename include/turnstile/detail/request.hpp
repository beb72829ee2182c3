// request.hpp - one place in a section's queue.
#pragma once

#include <turnstile/detail/fifo.hpp>
#include <turnstile/executor.hpp>

#include <cstdint>

namespace turnstile::detail {

struct worker;

// What became of a request that got its turn.
enum class [[nodiscard]] outcome : std::uint8_t {
  finished,   // the body ran: hand the request back
  suspended,  // the body waits and keeps the section; touch nothing any more
  granted,    // a guard owns the section now: hand the request back, the section stays held
  closed,     // the section takes no more requests and is never idle again
  entered,    // one of several sections: it stays held, and the request goes on to the next one
  no_body,    // it has ended without its body: hand the request back
  set_aside,  // it may not run yet, and waits apart (stand_in.hpp)
  withdrawn,  // its stand-in is still pinned
};

// Lives in the awaiting frame (or in the state of a handle). From the moment it is published until
// it is handed back it belongs to the section; `next` links it in the ring, then in a batch.
struct request : job {
  using step = outcome (*)(request&) noexcept;

  request() noexcept = default;  // fields are written when the request is made, not before

  guarded<std::uint64_t> ticket;  // its place in the order; written before it is published
  guarded<step> start;            // runs the body
  guarded<worker*> back_to;  // of the home's workers the one it left; null if it does not matter
  guarded<bool> may_wait;    // start may say suspended or granted; or it stands in for another
  guarded<std::uint64_t> accepted_at;  // when, in nanoseconds, if the section is timed; else 0

  request* link() const noexcept { return static_cast<request*>(static_cast<job*>(next)); }
};

inline request* reversed(request* newest) noexcept {
  return static_cast<request*>(reversed<job, &job::next>(newest));
}

}  // namespace turnstile::detail
