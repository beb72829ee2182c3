// inbox_ring.cpp - publishing and taking. The protocol is in the header.

#include <turnstile/detail/inbox_ring.hpp>

#include <bit>

namespace turnstile::detail {

arrival inbox_ring::close(place&) noexcept {
  std::uintptr_t seen = word_.load(relaxed);
  do {
    if ((seen & closed) != 0) return arrival::closed;
  } while (!word_.compare_exchange_weak(seen, seen | flags, acquire, relaxed));  // I2
  return seen == 0 ? arrival::owner : arrival::queued;
}

after_publish inbox_ring::push(request& r, bool last, private_side& mine) noexcept {
  // Counted before it is visible, so that the owner never gives back more than was counted.
  raise_to(most_, waiting_.fetch_add(1, relaxed) + 2);  // plus the one being served
  const auto self = std::bit_cast<std::uintptr_t>(&r);
  std::uintptr_t seen = word_.load(relaxed);
  for (;;) {
    if ((seen & closed) != 0 && !last) {
      waiting_.fetch_sub(1, relaxed);
      return after_publish::closed;
    }
    if ((seen & busy) == 0) {
      if (word_.compare_exchange_weak(seen, seen | busy, acquire, relaxed)) {  // I2
        r.next = nullptr;
        mine.first = &r;
        mine.counted.store(0, relaxed);
        return after_publish::take_over;
      }
    } else {
      r.next = std::bit_cast<request*>(seen & ~flags);
      if (word_.compare_exchange_weak(seen, self | (seen & flags), release, relaxed)) {  // I1
        return after_publish::nothing;  // r may be gone
      }
    }
  }
}

void inbox_ring::account(private_side& mine) noexcept {
  const std::size_t done = ended(mine);
  if (done == 0) return;
  waiting_.fetch_sub(static_cast<std::uint32_t>(done), relaxed);
  mine.counted.store(0, relaxed);
}

request* inbox_ring::next(private_side& mine) noexcept {
  if (mine.first == nullptr) {
    account(mine);
    std::uintptr_t seen = word_.load(relaxed);
    while ((seen & ~flags) == 0) {
      if (word_.compare_exchange_weak(seen, seen & ~busy, release, relaxed)) return nullptr;  // I2
    }
    request* const newest =
        std::bit_cast<request*>(word_.fetch_and(flags, acquire) & ~flags);  // I1
    mine.first = reversed(newest);
  }
  request* const r = mine.first;
  mine.first = r->link();
  mine.counted.store(mine.counted.load(relaxed) + 1, relaxed);
  return r;
}

std::size_t inbox_ring::pending() const noexcept {
  return waiting_.load(relaxed) + (word_.load(relaxed) != 0 ? 1 : 0);
}

}  // namespace turnstile::detail
