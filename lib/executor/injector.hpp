// injector.hpp - jobs that come to a pool from outside, and what does not fit into a worker's
// queue.
//
// A locked list: the lock is taken for the length of a splice, by posts from outside the pool and
// by workers that have run out of their own jobs. size_ can be read without it; it is part of the
// pool's agreement on sleeping (run_queue.hpp, Q3).
//
// Dangers  A job may end the pool's life as soon as it can be taken, and a poster from outside is
//          not joined by the pool. So the wake-up happens under the lock too, and unlocking is the
//          last touch.
#pragma once

#include "executor/sleepers.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <algorithm>
#include <cstddef>
#include <mutex>

namespace turnstile::detail {

class injector {
 public:
  struct chain {
    job* first = nullptr;
    job* last = nullptr;
    std::size_t n = 0;
  };

  // False: it is closed, and nothing was done.
  bool push(job* first, job* last, std::size_t n, sleepers& idle) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_closed_) return false;
    jobs_.append(*first, *last);
    size_.store(size_.load(relaxed) + n, seq_cst);  // Q3
    idle.wake_one();
    return true;
  }

  // What is in it can still be taken.
  void close() noexcept {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
  }

  // The oldest jobs, at most `most`.
  chain take(std::size_t most) noexcept {
    if (looks_empty()) return {};
    const std::lock_guard lock(mutex_);
    const std::size_t n = std::min(most, size_.load(relaxed));
    if (n == 0) return {};
    chain taken{jobs_.front(), nullptr, n};
    for (std::size_t i = 0; i != n; ++i) taken.last = jobs_.pop();
    size_.store(size_.load(relaxed) - n, relaxed);  // who sees too many looks in vain
    return taken;
  }

  bool looks_empty() const noexcept { return size_.load(seq_cst) == 0; }
  std::size_t size() const noexcept { return size_.load(relaxed); }

 private:
  mutex mutex_;
  fifo<job, &job::next> jobs_;      // under the lock
  guarded<bool> is_closed_{false};  // under the lock
  atomic<std::size_t> size_{0};
};

}  // namespace turnstile::detail
