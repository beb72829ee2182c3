// admission.cpp - who may wait in a section's line. The protocol is in gate.hpp.

#include "base/captured.hpp"
#include "strand/batch.hpp"
#include "strand/gate.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/errors.hpp>

#include <cstdlib>
#include <exception>

namespace turnstile::detail {

gate* section_core::limit() const noexcept { return known_stand_ins()->limit; }

section_core::admission section_core::admit() noexcept {
  if (is_lost()) return admission::lost;
  if (!limited() || limit()->enter()) return admission::in;
  if (is_closing()) return admission::closed;
  return limit()->may_wait() ? admission::outside : admission::full;
}

section_core::admission section_core::admit_if_empty() noexcept {
  if (!limited() || limit()->enter_if_empty()) return admission::in;
  return is_closing() ? admission::closed : admission::full;
}

std::exception_ptr section_core::refusal(admission why) noexcept {
  count_refusal();
  if (why == admission::lost) return lost_with();
  return captured([&] {
    if (why == admission::full) throw section_full(label(), limit()->most());
    throw section_closed(label());
  });
}

bool section_core::put_in_line(stand_in& s, arrival arrived, place line) noexcept {
  if (arrived == arrival::outside) {
    if (!limit()->enter_or_wait(s)) return !s.unpin();
    arrived = arrive(line);
  }
  switch (arrived) {
    case arrival::owner: post_first(line, s); break;
    case arrival::queued:
      if (publish_only(s, line) != published::closed) break;
      [[fallthrough]];
    default: s.close_outside();
  }
  return !s.unpin();
}

void section_core::let_in(stand_in& s) noexcept {
  place line;
  const arrival arrived = arrive(line);
  if (!put_in_line(s, arrived, line)) batch::post_back(s.behind());
}

void section_core::give_up_room() noexcept {
  if (!limited()) return;
  limit()->leave();
  stand_in::let_in(*limit());
}

// Without memory for it this ends the program: the line would stop here for ever.
void section_core::give_up(place p) noexcept {
  give_up_room();  // first: once the place is published the section may end
  if constexpr (section_ring::arrival_is_place) {
    stand_ins().left_in_line.fetch_add(1, relaxed);
    if (publish_only(*new stand_in, p) == published::closed) std::abort();
  }
}

}  // namespace turnstile::detail
