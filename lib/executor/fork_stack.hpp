// fork_stack.hpp - what a worker has forked: it takes the newest, and thieves take the oldest.
//
// Shape     bottom and top count forks; slots[n mod 256] for top <= n < bottom are full.
//           The owner stores to bottom: more to push, one less to take. Who takes from the top
//           moves top up: thieves, and the owner if it takes the last one.
//
//             top <= n < bottom - 1   the owner takes it without asking, when those above are gone
//             n == bottom - 1 == top  the last one: whoever moves top has it
//             bottom == top - 1       the owner looks at an empty stack, for a moment
//
// Edges     F1  publish  bottom.exchange(seq_cst) in push -> bottom.load(seq_cst) in steal
//               the thief sees the slot and what was posted with the fork
//           F2  return   top.CAS(release) in steal -> top.load(acquire) in push
//               the owner may write the slot again: it was read before the CAS
//           F3  newest   bottom.exchange(seq_cst), then top.load(seq_cst) in take;
//               top.load(seq_cst), then bottom.load(seq_cst) in steal. All four are in one order: a
//               thief that has seen top where the owner takes looked after the owner, who saw it
//               below, and so sees its bottom. So what the owner takes without asking no thief
//               takes. The owner's CAS is relaxed, for its look comes before, and is in that order.
//           Q3  of run_queue.hpp: the exchange in push, then the sleepers' word; a worker going to
//               sleep: its RMW on that word, then bottom.load(seq_cst) in looks_empty. What the
//               owner hides by looking is the fork that it takes, or a thief does
//
// Progress  push and take wait-free; steal lock-free: a failed CAS means that another one has it.
//
// Dangers   A thief reads the slot before its CAS; only if that succeeds was it still full.
//           Newest first leaves the oldest behind as long as there are new ones: see next_job in
//           thread_pool.cpp.
//
// Proof     test/schedule (fork_stack, pool), model parking; test/executor, test/stress
//
// Source    Chase and Lev, Dynamic circular work-stealing deque (SPAA 2005); its orders after Le,
//           Pop, Cohen and Zappa Nardelli (PPoPP 2013). Ours: it does not grow, and orders are on
//           the operations instead of fences, for the thread sanitizer and for Q3.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace turnstile::detail {

class fork_stack {
 public:
  static constexpr std::int64_t capacity = limit(256, 4);

  // Owner: a chain of `n` on top of the others, its last one on top, as far as there is room. Gives
  // how many had room, and in `first` the one after them.
  [[nodiscard]] std::size_t push(job*& first, std::size_t n) noexcept {
    const std::int64_t b = bottom_.load(relaxed);
    const std::int64_t room = capacity - (b - top_.load(acquire));  // F2
    const std::int64_t end = b + std::min(room, static_cast<std::int64_t>(n));
    for (std::int64_t at = b; at != end; ++at) {
      slot(at).store(first, relaxed);
      first = first->next;
    }
    if (end != b) bottom_.exchange(end, seq_cst);  // F1, Q3
    return static_cast<std::size_t>(end - b);
  }

  // Owner: the newest, or null.
  job* take() noexcept {
    const std::int64_t b = bottom_.load(relaxed) - 1;
    if (top_.load(relaxed) > b) return nullptr;  // relaxed: it never goes back
    bottom_.exchange(b, seq_cst);                // F3
    std::int64_t t = top_.load(seq_cst);         // F3
    if (t < b) return slot(b).load(relaxed);
    job* const last = slot(b).load(relaxed);
    const bool mine = t == b && top_.compare_exchange_strong(t, t + 1, relaxed, relaxed);  // F3
    bottom_.store(b + 1, relaxed);  // as it was: nothing is shown by it
    return mine ? last : nullptr;
  }

  // Anybody: the oldest, or null.
  job* steal() noexcept {
    for (;;) {
      std::int64_t t = top_.load(seq_cst);             // F3
      if (t >= bottom_.load(seq_cst)) return nullptr;  // F1, F3
      job* const oldest = slot(t).load(relaxed);
      if (top_.compare_exchange_strong(t, t + 1, release, relaxed)) return oldest;  // F2
    }
  }

  // A hint, for who may only look.
  bool has_any() const noexcept { return top_.load(relaxed) < bottom_.load(relaxed); }

  bool looks_empty() const noexcept {
    // An old top only makes it look fuller than it is.
    return top_.load(relaxed) >= bottom_.load(seq_cst);  // Q3
  }

 private:
  atomic<job*>& slot(std::int64_t n) noexcept {
    return slots_[static_cast<std::size_t>(n) % static_cast<std::size_t>(capacity)];
  }

  alignas(cache_line) atomic<std::int64_t> top_{0};
  alignas(cache_line) atomic<std::int64_t> bottom_{0};
  atomic<job*> slots_[capacity]{};
};

}  // namespace turnstile::detail
