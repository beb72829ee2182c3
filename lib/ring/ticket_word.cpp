// ticket_word.cpp - the transitions off the uncontended path. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/ticket_word.hpp>

namespace turnstile::detail {

arrival ticket_word::arrive_busy(place p) noexcept {
  if ((p & closed_bit) != 0) {
    // Tickets after the closing one are never waited for, so only the count goes back. Relaxed: a
    // refused request hands nothing on.
    word_.fetch_sub(1, relaxed);
    return arrival::closed;
  }
  const std::uint64_t n = p & pending_mask;
  if (n >= most_allowed) contract_break("", "more than 33 million requests wait at once", {});
  note_queued(p);
  return arrival::queued;
}

// Who keeps the section may not be inside, and then this one does not wait: see
// note_waiting_behind.
void ticket_word::note_queued(place p) noexcept {
  const std::uint64_t n = p & pending_mask;
  raise_to(most_, static_cast<std::uint32_t>(found_kept(p) ? n : n + 1));
}

arrival ticket_word::try_arrive(place& p) noexcept {
  p = word_.load(relaxed);
  do {
    if ((p & closed_bit) != 0) return arrival::closed;
    if ((p & pending_mask) != 0) return arrival::queued;
  } while (!word_.compare_exchange_weak(p, p + (one_ticket | 1), acquire, relaxed));  // W1
  return arrival::owner;
}

arrival ticket_word::close(place& p) noexcept {
  constexpr std::uint64_t step = one_ticket | closed_bit | 1;
  p = word_.load(relaxed);
  do {
    if ((p & closed_bit) != 0) return arrival::closed;
  } while (!word_.compare_exchange_weak(p, p + step, acquire, relaxed));  // W1
  if ((p & pending_mask) == 0) return arrival::owner;
  note_queued(p);
  return arrival::queued;
}

void ticket_word::note_waiting_behind(place p) noexcept {
  raise_to(most_, static_cast<std::uint32_t>((p & pending_mask) + 1));
}

bool ticket_word::keep(place p, private_side& mine) noexcept {
  mine.head = (ticket_of(p) + 1) & ticket_mask;
  mine.unaccounted.store(0, relaxed);
  std::uint64_t alone = p + (one_ticket | 1);
  return word_.compare_exchange_strong(alone, alone | kept_bit, seq_cst, relaxed);  // K4
}

bool ticket_word::let_go(private_side& mine) noexcept {
  const std::uint64_t was = word_.fetch_sub(kept_bit | 1, release);  // W1
  const auto left = static_cast<std::uint32_t>((was & pending_mask) - 1);
  if (left == 0) return true;  // the last touch
  mine.known = left;
  return false;
}

void ticket_word::hold_kept(private_side& mine) noexcept {
  word_.fetch_sub(kept_bit, relaxed);  // settle tells the rest
  mine.head = (mine.head - 1) & ticket_mask;
  mine.unaccounted.store(0, relaxed);
  mine.known = 1;
}

void ticket_word::account(private_side& mine) noexcept {
  const std::uint32_t done = mine.unaccounted.load(relaxed);
  if (done == 0) return;
  mine.unaccounted.store(0, relaxed);
  const std::uint64_t was = word_.fetch_sub(done, relaxed);  // settle tells the rest
  mine.known = static_cast<std::uint32_t>((was & pending_mask) - done);
}

}  // namespace turnstile::detail
