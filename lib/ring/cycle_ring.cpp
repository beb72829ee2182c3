// cycle_ring.cpp - the baseline over libcds. The protocol is in the header.

#include <turnstile/detail/cycle_ring.hpp>

#include <algorithm>
#include <cds/container/vyukov_mpmc_cycle_queue.h>
#include <thread>

namespace turnstile::detail {

struct cycle_ring::cells {
  explicit cells(std::size_t capacity) : queue(capacity) {}
  cds::container::VyukovMPSCCycleQueue<request*> queue;
};

cycle_ring::cycle_ring(std::size_t capacity)
    : cells_(std::make_unique<cells>(std::max<std::size_t>(capacity, 2))) {}  // libcds needs two

cycle_ring::~cycle_ring() = default;

after_publish cycle_ring::publish(request& r, place p, private_side&) noexcept {
  r.ticket = ticket_word::ticket_of(p);
  if (cells_->queue.enqueue(&r)) return after_publish::nothing;  // C1; r may be gone
  request* seen = overflow_.load(relaxed);
  do {
    r.next = seen;
  } while (!overflow_.compare_exchange_weak(seen, &r, release, relaxed));  // C2
  return after_publish::nothing;
}

request* cycle_ring::next(private_side& mine) noexcept {
  if (word_.settle(mine)) return nullptr;
  for (unsigned waited = 0;; ++waited) {
    request* const first = sorted_;
    if (first != nullptr && first->ticket == mine.head) {
      sorted_ = first->link();
      return first;
    }
    collect();
    constexpr unsigned spins = 64;  // longer than a publish; after that its thread is not running
    if (waited < spins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

void cycle_ring::put_back(request& r, private_side& mine) noexcept {
  r.ticket = mine.head;
  r.next = sorted_;
  if (sorted_ == nullptr) last_ = &r;
  sorted_ = &r;
}

void cycle_ring::collect() noexcept {
  request* r = nullptr;
  while (cells_->queue.dequeue(r)) insert(*r);         // C1
  r = reversed(overflow_.exchange(nullptr, acquire));  // C2
  while (r != nullptr) {
    request* const younger = r->link();
    insert(*r);
    r = younger;
  }
}

// Requests come nearly in order, so nearly always at the end.
void cycle_ring::insert(request& r) noexcept {
  request* prev = nullptr;
  request* at = sorted_;
  if (at != nullptr && ticket_word::before(last_->ticket, r.ticket)) {
    prev = last_;
    at = nullptr;
  }
  while (at != nullptr && ticket_word::before(at->ticket, r.ticket)) {
    prev = at;
    at = at->link();
  }
  r.next = at;
  if (at == nullptr) last_ = &r;
  if (prev == nullptr) {
    sorted_ = &r;
  } else {
    prev->next = &r;
  }
}

}  // namespace turnstile::detail
