// ticket_ring.cpp - publishing and taking. The protocol is in the header.

#include <turnstile/detail/ticket_ring.hpp>

#include <bit>
#include <memory>

namespace turnstile::detail {

ticket_ring::ticket_ring(std::size_t capacity, storage& inside)
    : cells_(inside.cells),
      stash_(inside.stash),
      log2_cells_(static_cast<std::uint8_t>(std::countr_zero(capacity))) {
  if (capacity <= storage::size) return;
  auto stash = std::make_unique<guarded<request*>[]>(capacity);
  cells_ = new cell[capacity]{};
  stash_ = stash.release();
}

ticket_ring::~ticket_ring() {
  if ((std::size_t{1} << log2_cells_) <= storage::size) return;
  delete[] cells_;
  delete[] stash_;
}

after_publish ticket_ring::publish(request& r, place p, private_side&) noexcept {
  r.ticket = ticket_word::ticket_of(p);
  const std::size_t i = index_of(r.ticket);
  std::uintptr_t seen = cells_[i].load(relaxed);
  for (;;) {
    if (seen == parked) {
      if (cells_[i].compare_exchange_weak(seen, nothing, acquire, relaxed)) {  // R2
        insert(i, r, nullptr);
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
  for (;;) {
    request* const first = stash_[i];
    if (first != nullptr && first->ticket == mine.head) {
      stash_[i] = first->link();
      return first;
    }
    if (cells_[i].load(relaxed) != nothing) {
      collect(i);
      continue;
    }
    account(mine);
    std::uintptr_t seen = nothing;
    if (cells_[i].compare_exchange_strong(seen, parked, release, relaxed)) return nullptr;  // R2
  }
}

// The chain comes newest first, so mostly in falling order of tickets. Turned round, each insertion
// goes on from the one before.
void ticket_ring::collect(std::size_t i) noexcept {
  request* newest = std::bit_cast<request*>(cells_[i].exchange(nothing, acquire));  // R1
  request* oldest = nullptr;
  while (newest != nullptr) {
    request* const older = newest->link();
    newest->next = oldest;
    oldest = newest;
    newest = older;
  }
  for (request* last = nullptr; oldest != nullptr;) {
    request* const younger = oldest->link();
    last = insert(i, *oldest, last);
    oldest = younger;
  }
}

// Puts `r` into its place in the stash, looking from `after` on if that comes before it.
request* ticket_ring::insert(std::size_t i, request& r, request* after) noexcept {
  if (after != nullptr && !ticket_word::before(after->ticket, r.ticket)) after = nullptr;
  request* at = after == nullptr ? stash_[i] : after->link();
  while (at != nullptr && ticket_word::before(at->ticket, r.ticket)) {
    after = at;
    at = at->link();
  }
  r.next = at;
  if (after == nullptr) {
    stash_[i] = &r;
  } else {
    after->next = &r;
  }
  return &r;
}

}  // namespace turnstile::detail
