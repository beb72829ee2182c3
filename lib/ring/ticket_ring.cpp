// ticket_ring.cpp - publishing and taking. The protocol is in the header.

#include <turnstile/detail/ticket_ring.hpp>

#include <algorithm>
#include <bit>

namespace turnstile::detail {

void ticket_ring::private_side::allocate(std::size_t capacity) {
  cells[0].store(std::bit_cast<std::uintptr_t>(new many(capacity)), relaxed);
}

ticket_ring::cell& ticket_ring::cell_of(std::uint64_t ticket, private_side& mine) const noexcept {
  const std::size_t i = index_of(ticket, log2_cells_);
  return is_inside() ? mine.cells[i] : mine.others()->cells[i];
}

std::size_t ticket_ring::stash_index_of(std::uint64_t ticket) const noexcept {
  constexpr int inside = std::countr_zero(stashes_inside);
  return index_of(ticket, is_inside() ? std::min<int>(log2_cells_, inside) : log2_cells_);
}

guarded<request*>& ticket_ring::stash(std::size_t i, private_side& mine) const noexcept {
  return is_inside() ? mine.stashes_[i] : mine.others()->stashes[i];
}

after_publish ticket_ring::publish(request& r, place p, private_side& mine) noexcept {
  r.ticket = ticket_word::ticket_of(p);
  cell& c = cell_of(r.ticket, mine);
  std::uintptr_t seen = c.load(relaxed);
  for (;;) {
    if (seen == parked) {
      if (c.compare_exchange_weak(seen, nothing, acquire, relaxed)) {  // R2
        put(r, mine);
        return after_publish::take_over;
      }
    } else {
      r.next = std::bit_cast<request*>(seen);
      if (c.compare_exchange_weak(seen, std::bit_cast<std::uintptr_t>(&r), release,  // R1
                                  relaxed)) {
        return after_publish::nothing;  // r may be gone
      }
    }
  }
}

request* ticket_ring::next(private_side& mine) noexcept {
  if (word_.settle(mine)) return nullptr;
  cell& c = cell_of(mine.head, mine);
  guarded<request*>& stashed = stash(stash_index_of(mine.head), mine);
  for (;;) {
    request* const first = stashed;
    if (first != nullptr && first->ticket == mine.head) {
      stashed = first->link();
      if (first == mine.last_put_) mine.last_put_ = nullptr;
      return first;
    }
    if (c.load(relaxed) != nothing) {
      collect(c, mine);
      continue;
    }
    account(mine);
    std::uintptr_t seen = nothing;
    if (c.compare_exchange_strong(seen, parked, release, relaxed)) return nullptr;  // R2
  }
}

void ticket_ring::put_back(request& r, private_side& mine) noexcept {
  r.ticket = mine.head;
  guarded<request*>& stashed = stash(stash_index_of(mine.head), mine);
  r.next = stashed;
  stashed = &r;
}

// The chain comes newest first, so mostly in falling order of tickets. Turned round, each is put
// behind the one before.
void ticket_ring::collect(cell& from, private_side& mine) const noexcept {
  request* newest = std::bit_cast<request*>(from.exchange(nothing, acquire));  // R1
  request* oldest = nullptr;
  while (newest != nullptr) {
    request* const older = newest->link();
    newest->next = oldest;
    oldest = newest;
    newest = older;
  }
  while (oldest != nullptr) {
    request* const younger = oldest->link();
    put(*oldest, mine);
    oldest = younger;
  }
}

// Puts `r` into its place in its stash. Tickets mostly come in rising order, so the place is looked
// for from the one put last.
void ticket_ring::put(request& r, private_side& mine) const noexcept {
  const std::size_t i = stash_index_of(r.ticket);
  guarded<request*>& stashed = stash(i, mine);
  request* after = mine.last_put_;
  if (after != nullptr &&
      (stash_index_of(after->ticket) != i || !ticket_word::before(after->ticket, r.ticket))) {
    after = nullptr;
  }
  request* at = after == nullptr ? static_cast<request*>(stashed) : after->link();
  while (at != nullptr && ticket_word::before(at->ticket, r.ticket)) {
    after = at;
    at = at->link();
  }
  r.next = at;
  if (after == nullptr) {
    stashed = &r;
  } else {
    after->next = &r;
  }
  mine.last_put_ = &r;
}

}  // namespace turnstile::detail
