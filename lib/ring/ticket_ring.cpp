// ticket_ring.cpp - publishing and taking. The protocol is in the header.

#include <turnstile/detail/ticket_ring.hpp>

#include <bit>

namespace turnstile::detail {

ticket_ring::private_side::private_side(std::size_t capacity, storage& inside)
    : stash_(inside.stash), allocated_(capacity > storage::size) {
  if (allocated_) stash_ = new guarded<request*>[capacity] {};
}

ticket_ring::private_side::~private_side() {
  if (allocated_) delete[] stash_;
}

ticket_ring::ticket_ring(std::size_t capacity, storage& inside)
    : cells_(capacity > storage::size ? new cell[capacity]{} : inside.cells),
      log2_cells_(static_cast<std::uint8_t>(std::countr_zero(capacity))) {}

ticket_ring::~ticket_ring() {
  if ((std::size_t{1} << log2_cells_) > storage::size) delete[] cells_;
}

after_publish ticket_ring::publish(request& r, place p, private_side& mine) noexcept {
  r.ticket = ticket_word::ticket_of(p);
  const std::size_t i = index_of(r.ticket);
  std::uintptr_t seen = cells_[i].load(relaxed);
  for (;;) {
    if (seen == parked) {
      if (cells_[i].compare_exchange_weak(seen, nothing, acquire, relaxed)) {  // R2
        put(r, mine);
        return after_publish::take_over;
      }
    } else {
      r.next = std::bit_cast<request*>(seen);
      if (cells_[i].compare_exchange_weak(seen, std::bit_cast<std::uintptr_t>(&r), release,  // R1
                                          relaxed)) {
        return after_publish::nothing;  // r may be gone
      }
    }
  }
}

request* ticket_ring::next(private_side& mine) noexcept {
  if (word_.settle(mine)) return nullptr;
  const std::size_t i = index_of(mine.head);
  guarded<request*>& stash = mine.stash_[i];
  for (;;) {
    request* const first = stash;
    if (first != nullptr && first->ticket == mine.head) {
      stash = first->link();
      if (first == mine.last_put_) mine.last_put_ = nullptr;
      return first;
    }
    if (cells_[i].load(relaxed) != nothing) {
      collect(i, mine);
      continue;
    }
    account(mine);
    std::uintptr_t seen = nothing;
    if (cells_[i].compare_exchange_strong(seen, parked, release, relaxed)) return nullptr;  // R2
  }
}

void ticket_ring::put_back(request& r, private_side& mine) noexcept {
  r.ticket = mine.head;
  guarded<request*>& stash = mine.stash_[index_of(mine.head)];
  r.next = stash;
  stash = &r;
}

// The chain comes newest first, so mostly in falling order of tickets. Turned round, each is put
// behind the one before.
void ticket_ring::collect(std::size_t i, private_side& mine) noexcept {
  request* newest = std::bit_cast<request*>(cells_[i].exchange(nothing, acquire));  // R1
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
void ticket_ring::put(request& r, private_side& mine) noexcept {
  const std::size_t i = index_of(r.ticket);
  request* after = mine.last_put_;
  if (after != nullptr &&
      (index_of(after->ticket) != i || !ticket_word::before(after->ticket, r.ticket))) {
    after = nullptr;
  }
  request* at = after == nullptr ? static_cast<request*>(mine.stash_[i]) : after->link();
  while (at != nullptr && ticket_word::before(at->ticket, r.ticket)) {
    after = at;
    at = at->link();
  }
  r.next = at;
  if (after == nullptr) {
    mine.stash_[i] = &r;
  } else {
    after->next = &r;
  }
  mine.last_put_ = &r;
}

}  // namespace turnstile::detail
