// ticket_ring.cpp - publishing and taking. The protocol is in the header.

#include <turnstile/detail/ticket_ring.hpp>

#include <bit>
#include <utility>

namespace turnstile::detail {

void ticket_ring::private_side::allocate(std::size_t capacity) {
  cells[0].store(std::bit_cast<std::uintptr_t>(new many(capacity)), relaxed);
}

after_publish ticket_ring::publish(request& r, place p, private_side& mine) noexcept {
  r.ticket = ticket_word::ticket_of(p);
  cell& c = cell_of(r.ticket, mine);
  std::uintptr_t seen = c.load(relaxed);
  for (;;) {
    if (seen == parked) {
      if (c.compare_exchange_weak(seen, nothing, acquire, relaxed)) {  // R2
        r.next = nullptr;
        put(&r, mine);
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

bool ticket_ring::take_own(place p, private_side& mine) noexcept {
  cell& c = cell_of(ticket_word::ticket_of(p), mine);
  if (c.load(relaxed) != parked) return false;
  std::uintptr_t seen = parked;
  return c.compare_exchange_strong(seen, nothing, acquire, relaxed);  // R2
}

request* ticket_ring::next(private_side& mine) noexcept {
  if (word_.settle(mine)) return nullptr;
  guarded<request*>& last = mine.stash_of(mine.head);
  for (;;) {
    request* const first = last == nullptr ? nullptr : last->link();
    if (first != nullptr && first->ticket == mine.head) {
      if (first == last) {
        last = nullptr;
      } else {
        last->next = first->next;
      }
      return first;
    }
    cell& c = cell_of(mine.head, mine);
    if (c.load(relaxed) != nothing) {
      prefetch_newest(mine);
      collect(c, mine);
      continue;
    }
    account(mine);
    std::uintptr_t seen = nothing;
    if (c.compare_exchange_strong(seen, parked, release, relaxed)) return nullptr;  // R2
  }
}

// Those that are collected soon, mostly written by other cores: all come over at the same time.
// What many cells have is not worth the look, and a checker has nothing to see.
void ticket_ring::prefetch_newest(const private_side& mine) noexcept {
  if (mine.is_allocated()) return;
  for (std::size_t i = 0; i != limit(cells_inside, std::size_t{0}); ++i) {
    const std::uintptr_t newest = mine.cells[i].load(relaxed);
    if (newest > parked) prefetch_request(std::bit_cast<const request*>(newest));
  }
}

void ticket_ring::put_back(request& r, private_side& mine) noexcept {
  r.ticket = mine.head;
  guarded<request*>& last = mine.stash_of(mine.head);
  if (last == nullptr) {
    r.next = &r;
    last = &r;
  } else {
    insert(r, *last);  // the first again
  }
}

// The chain comes newest first, so mostly in falling order of tickets. Turned round, each is put
// behind the one before.
void ticket_ring::collect(cell& from, private_side& mine) noexcept {
  request* const newest = std::bit_cast<request*>(from.exchange(nothing, acquire));  // R1
  if (newest != nullptr) put(reversed(newest), mine);
}

// Puts those of a chain, which is from one cell, into their places in its stash: mostly behind all
// that are there. Where the stash has later ones, of its other cell or because a publisher was
// late, the place is looked for from the one put before: so two chains are merged in as many steps
// as there are requests.
void ticket_ring::put(request* chain, private_side& mine) noexcept {
  guarded<request*>& last = mine.stash_of(chain->ticket);
  request* after = last;
  do {
    request& r = *std::exchange(chain, chain->link());
    if (last == nullptr) {
      r.next = &r;
      last = &r;
    } else if (ticket_word::before(last->ticket, r.ticket)) {
      insert(r, *last);
      last = &r;
    } else {
      if (!ticket_word::before(after->ticket, r.ticket)) after = last;  // the first one follows it
      while (ticket_word::before(after->link()->ticket, r.ticket)) after = after->link();
      insert(r, *after);
    }
    after = &r;
  } while (chain != nullptr);
}

}  // namespace turnstile::detail
