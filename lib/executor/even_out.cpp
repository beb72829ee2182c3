// even_out.cpp - half of what waits at one that stands still, or of what another has too much.

#include "executor/even_out.hpp"

#include "executor/injector.hpp"
#include "executor/neighbour.hpp"
#include "executor/run_queue.hpp"
#include "executor/sleepers.hpp"
#include "executor/worker.hpp"

#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace turnstile::detail {
namespace {

// How many a worker looks at then; each look may bring three lines over.
constexpr std::uint32_t looks_at_once = 8;

// None of them runs now. Moving hid them for a moment, so somebody is woken, as if they were new
// (run_queue.hpp, Q3).
void keep_moved(worker& w, const auto& moved, sleepers& idle) noexcept {
  if (moved.n == 0) return;
  w.keep(moved.first, moved.last, moved.n, idle);
  idle.wake_one();
}

void take_waiting(worker& w, worker& from, std::size_t n, sleepers& idle) noexcept {
  if (n == 0) return;
  if (from.overflow.size() == 0) {
    w.queue.take_from(from.queue, static_cast<std::uint32_t>(n));
    idle.wake_one();
  } else {
    keep_moved(w, from.overflow.take(n), idle);
  }
}

void take_share(worker& w, worker& from, sleepers& idle) noexcept {
  neighbour& seen = w.others[from.index];
  const steady_clock::time_point now = steady_clock::now();
  if (!from.has_backlog() || from.tries(now)) return seen.note_nothing_waits(now);
  const std::size_t n = seen.share(from.tick.load(relaxed), from.work(), from.waiting(),
                                   w.waiting(), w.makes_up.is_on(), now);
  if (seen.stands_still()) {
    if (job* const fork = from.forks.steal()) {
      keep_moved(w, injector::chain{fork, fork, 1}, idle);
    }
    keep_moved(w, from.mail.take(), idle);
  }
  take_waiting(w, from, std::min<std::size_t>(n, run_queue::capacity / 2), idle);
}

}  // namespace

void even_out(worker& w, std::span<worker> all, steady_clock::time_point now,
              sleepers& idle) noexcept {
  const auto n = static_cast<std::uint32_t>(all.size());
  w.makes_up.note_look((n + looks_at_once - 1) / looks_at_once, now);
  for (std::uint32_t i = 0; i != std::min(looks_at_once, n); ++i) {
    worker& other = all[w.next_look];
    w.next_look = w.next_look + 1 == n ? 0 : w.next_look + 1;
    if (&other != &w) take_share(w, other, idle);
  }
}

}  // namespace turnstile::detail
