// run_queue.hpp - a worker's own jobs: one thread appends, it and thieves take from the front.
//
// Shape     head and tail count up; slots[n mod 256] for head <= n < tail are full.
//           The owner stores to tail only; owner and thieves CAS head.
//
// Edges     Q1  append  tail.exchange in append and take_from, tail.store(release) in steal_from ->
//                       tail.load(acquire) in steal_from, take_from
//               the taker sees the slot and what was posted with the job
//           Q2  return  head.CAS(release) in take, steal_from, take_from -> head.load(acquire) in
//                       room, and of the owner's own head in steal_from
//               the owner may write the slot again: it was read before the CAS
//           Q3  wake    tail.exchange(seq_cst) in append, take_from, then the sleepers' word
//               load(seq_cst); a worker going to sleep: RMW(seq_cst) on that word, then
//               tail.load(seq_cst) in looks_empty. All four are in one order, so not both can miss
//               the other. That covers posting. Who moves jobs from one place to another hides them
//               for a moment, so it wakes somebody too if it leaves any behind.
//
// Progress  append wait-free; take, steal_from and take_from lock-free: a failed CAS means that
//           another thread took something.
//
// Dangers   A thief copies slots before its CAS; only if the CAS succeeds were they still full.
//
// Proof     test/schedule (run_queue, evening out, pool), model parking; test/executor, test/stress
//
// Source    the bounded queue of Go's scheduler and tokio's workers, steal half included.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <algorithm>
#include <cstdint>

namespace turnstile::detail {

class run_queue {
 public:
  static constexpr std::uint32_t capacity = limit(256u, 4u);

  // Owner: room for this many more.
  std::uint32_t room() const noexcept {
    return capacity - (tail_.load(relaxed) - head_.load(acquire));  // Q2
  }

  // Owner: appends a chain of `n` <= room() jobs and makes them visible to thieves, in one total
  // order with their going to sleep.
  void append(job* first, std::uint32_t n) noexcept {
    const std::uint32_t t = tail_.load(relaxed);
    for (std::uint32_t i = 0; i != n; ++i) {
      slot(t + i).store(first, relaxed);
      first = first->next;
    }
    tail_.exchange(t + n, seq_cst);  // Q1, Q3
  }

  // Owner: the oldest job, or null.
  job* take() noexcept {
    std::uint32_t h = head_.load(relaxed);
    for (;;) {
      if (h == tail_.load(relaxed)) return nullptr;  // relaxed: our own stores
      job* const j = slot(h).load(relaxed);
      if (head_.compare_exchange_weak(h, h + 1, release, relaxed)) return j;  // Q2
    }
  }

  // Owner of an empty queue: takes half of another's, and gives the first one.
  job* steal_from(run_queue& victim) noexcept;

  // Owner: appends another's oldest to its own, at most so many, and no more than there is room
  // for.
  void take_from(run_queue& victim, std::uint32_t most) noexcept;

  // Hints, for who may only look.
  std::uint32_t size() const noexcept {
    const std::uint32_t h = head_.load(relaxed);
    const std::uint32_t n = tail_.load(relaxed) - h;
    return n <= capacity ? n : 0;  // more than fits: h is outdated
  }
  bool has_backlog() const noexcept { return head_.load(relaxed) != tail_.load(relaxed); }

  bool looks_empty() const noexcept {
    // An old head only makes it look fuller than it is. A new one, that its taker has stored behind
    // what it has appended, brings the tail of that with it (Q2).
    const std::uint32_t head = head_.load(acquire);
    return head == tail_.load(seq_cst);  // Q3
  }

 private:
  atomic<job*>& slot(std::uint32_t n) noexcept { return slots_[n % capacity]; }

  alignas(cache_line) atomic<std::uint32_t> head_{0};
  atomic<std::uint32_t> tail_{0};
  atomic<job*> slots_[capacity]{};
};

inline job* run_queue::steal_from(run_queue& victim) noexcept {
  const std::uint32_t mine = tail_.load(relaxed);
  static_cast<void>(head_.load(acquire));  // Q2: thieves have read what is written over
  std::uint32_t h = victim.head_.load(relaxed);
  for (;;) {
    const std::uint32_t n = victim.tail_.load(acquire) - h;  // Q1
    if (n == 0 || n > capacity) return nullptr;              // more than fits: h is outdated
    const std::uint32_t half = n - n / 2;
    for (std::uint32_t i = 0; i != half; ++i) {
      slot(mine + i).store(victim.slot(h + i).load(relaxed), relaxed);
    }
    if (!victim.head_.compare_exchange_weak(h, h + half, release, relaxed)) continue;  // Q2
    job* const first = slot(mine).load(relaxed);
    // Our head is our tail, so the first one is left out by starting behind it.
    head_.store(mine + 1, relaxed);
    tail_.store(mine + half, release);  // Q1
    return first;
  }
}

inline void run_queue::take_from(run_queue& victim, std::uint32_t most) noexcept {
  const std::uint32_t mine = tail_.load(relaxed);
  most = std::min(most, room());
  std::uint32_t h = victim.head_.load(relaxed);
  for (;;) {
    const std::uint32_t there = victim.tail_.load(acquire) - h;  // Q1
    const std::uint32_t n = std::min(there, most);
    if (n == 0 || there > capacity) return;  // more than fits: h is outdated
    for (std::uint32_t i = 0; i != n; ++i) {
      slot(mine + i).store(victim.slot(h + i).load(relaxed), relaxed);
    }
    if (!victim.head_.compare_exchange_weak(h, h + n, release, relaxed)) continue;  // Q2
    tail_.exchange(mine + n, seq_cst);                                              // Q1, Q3
    return;
  }
}

}  // namespace turnstile::detail
