// spares.cpp - a thread's spare stand-ins, until it ends.

#include "strand/spares.hpp"

#include "base/thread_end.hpp"

#include <turnstile/detail/stand_in.hpp>

#include <utility>

namespace turnstile::detail {

namespace {

struct spares {
  stand_in* first = nullptr;
  std::uint32_t count = 0;
};

constinit thread_local spares mine;

// They are not destroyed with it: what other ends of the thread do may still come here.
void end_spares() noexcept {
  while (stand_in* const s = take_spare()) delete s;
}

}  // namespace

stand_in* take_spare() noexcept {
  stand_in* const s = mine.first;
  if (s == nullptr) return nullptr;
  mine.first = std::exchange(s->next_spare, nullptr);
  --mine.count;
  return s;
}

bool keep_spare(stand_in& s) noexcept {
  if (mine.count >= most_spares || !at_thread_end<&end_spares>::arm()) return false;
  s.next_spare = std::exchange(mine.first, &s);
  ++mine.count;
  return true;
}

}  // namespace turnstile::detail
