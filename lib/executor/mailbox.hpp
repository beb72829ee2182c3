// mailbox.hpp - coroutines that come back to the worker they left: served by another, resumed here.
//
// Shape     newest = newest job of a chain linked through `next`, or null
//
//             x --push n jobs--> the last of them --> ... --> the first --> x   by another worker
//             x --take---------> null        by the worker, or by one that helps it
//
// Edges     M1  push    CAS(seq_cst) in push -> exchange(acquire) in take: what was posted with the
//               jobs. Pushes are RMWs, so one acquire covers the whole chain.
//           Q3  of run_queue.hpp: the CAS, then the sleepers' word; a worker going to sleep: its
//               RMW on that word, then newest.load(seq_cst) in looks_empty
//
// Progress  push lock-free, take wait-free but for turning round what it took.
//
// Dangers   Only workers of the same pool push: a job may end the pool's life as soon as it can be
//           taken, but not before they are joined.
//
// Proof     test/schedule (mailbox, pool), model parking; test/executor, test/stress
//
// Source    Treiber, Systems programming: coping with parallelism (IBM RJ 5118, 1986); taken whole,
//           so that no job is taken for one that was there before.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>

namespace turnstile::detail {

class mailbox {
 public:
  struct chain {
    job* first = nullptr;
    job* last = nullptr;
    std::size_t n = 0;
  };

  // A chain from `first` to `last`, in that order.
  void push(job* first, job* last) noexcept {
    job* newest = nullptr;
    for (job* j = first;;) {
      job* const after = j->next;
      j->next = newest;
      newest = j;
      if (j == last) break;
      j = after;
    }
    job* seen = newest_.load(relaxed);
    do {
      first->next = seen;
    } while (!newest_.compare_exchange_weak(seen, newest, seq_cst, relaxed));  // M1, Q3
  }

  // Everything, oldest first.
  chain take() noexcept {
    chain all;
    all.last = newest_.exchange(nullptr, acquire);  // M1
    for (job* j = all.last; j != nullptr; ++all.n) {
      prefetch_request(j);  // it was served elsewhere
      job* const older = j->next;
      j->next = all.first;
      all.first = j;
      j = older;
    }
    return all;
  }

  // A hint.
  bool has_any() const noexcept { return newest_.load(relaxed) != nullptr; }

  bool looks_empty() const noexcept { return newest_.load(seq_cst) == nullptr; }  // Q3

 private:
  alignas(cache_line) atomic<job*> newest_{nullptr};
};

}  // namespace turnstile::detail
