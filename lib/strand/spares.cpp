// spares.cpp - a thread's spare stand-ins, until it ends.

#include "strand/spares.hpp"

#include <turnstile/detail/stand_in.hpp>

#include <utility>

namespace turnstile::detail {

namespace {

struct spares {
  stand_in* first = nullptr;
  std::uint32_t count = 0;
  bool thread_ends = false;
};

constinit thread_local spares mine;

// Apart from them: what other ends of the thread do may still come here.
struct end_of_spares {
  ~end_of_spares() {
    mine.thread_ends = true;
    while (stand_in* const s = take_spare()) delete s;
  }
};

}  // namespace

stand_in* take_spare() noexcept {
  stand_in* const s = mine.first;
  if (s == nullptr) return nullptr;
  mine.first = std::exchange(s->next_spare, nullptr);
  --mine.count;
  return s;
}

bool keep_spare(stand_in& s) noexcept {
  if (mine.count >= most_spares || mine.thread_ends) return false;
  static thread_local end_of_spares until_it_ends;
  s.next_spare = std::exchange(mine.first, &s);
  ++mine.count;
  return true;
}

}  // namespace turnstile::detail
