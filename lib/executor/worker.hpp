// worker.hpp - one thread of a pool: what waits there, and what the others see of it.
//
// Its own thread does what nothing else is said of; the others look, and take from the queues as
// those allow.
#pragma once

#include "executor/fork_stack.hpp"
#include "executor/gathering.hpp"
#include "executor/injector.hpp"
#include "executor/mailbox.hpp"
#include "executor/neighbour.hpp"
#include "executor/pace.hpp"
#include "executor/run_queue.hpp"
#include "executor/sleepers.hpp"
#include "executor/turn_length.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace turnstile::detail {

class pool_core;

struct worker {
  pool_core* pool = nullptr;
  std::uint32_t index = 0;
  std::uint32_t random = 0;       // xorshift state: which victim to try first
  std::uint32_t next_look = 0;    // whose queue to look at next
  now_and_then looks;             // at the others
  turn_length turn;               // of a coroutine that need not suspend, if others wait
  lone_turns turns_alone;         // of one, if nobody does
  gathering gathers;              // its section's coroutines, from the others
  making_up makes_up;             // it takes its share at once
  std::vector<neighbour> others;  // how this one sees them, by index
  fork_stack forks;
  run_queue queue;
  injector overflow;  // what does not fit into the queue
  mailbox mail;
  // Jobs begun here. Relaxed: the others judge by it, and by the following.
  atomic<std::uint32_t> tick{0};
  // As of the end of the last job, or of a while of serving. The others see bodies, whoever asked
  // for them, of the time to serve them what this worker has found to be brisk itself, and until
  // when it tries to be.
  atomic<std::uint32_t> bodies{0};
  atomic<std::uint64_t> brisk_serving_ns{0};
  atomic<std::int64_t> tries_until_ns{0};
  thread runs;

  void note_work(const thread_state& t) noexcept {
    bodies.store(t.bodies(), relaxed);
    brisk_serving_ns.store(t.brisk_serving_ns, relaxed);
    tries_until_ns.store(t.tries_until_ns, relaxed);
  }
  work_done work() const noexcept { return {bodies.load(relaxed), brisk_serving_ns.load(relaxed)}; }
  bool tries(steady_clock::time_point now) const noexcept {
    return tries_until_ns.load(relaxed) > now.time_since_epoch().count();
  }

  // Wakes nobody, unless there is no room in the queue.
  void keep(job* first, job* last, std::size_t n, sleepers& idle) noexcept {
    if (overflow.size() == 0 && n <= queue.room()) {
      queue.append(first, static_cast<std::uint32_t>(n));
    } else {
      overflow.push(first, last, n, idle);
    }
  }

  // Hints.
  std::size_t waiting() const noexcept { return queue.size() + overflow.size(); }
  bool has_backlog() const noexcept {
    return forks.has_any() || queue.has_backlog() || mail.has_any() || overflow.size() != 0;
  }
  bool looks_empty() const noexcept {
    return forks.looks_empty() && queue.looks_empty() && mail.looks_empty() &&
           overflow.looks_empty();
  }
};

}  // namespace turnstile::detail
