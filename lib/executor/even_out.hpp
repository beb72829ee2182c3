// even_out.hpp - a worker that has jobs takes some of what waits at others (how many:
// neighbour.hpp).
//
// Proof     test/schedule (evening out, pool), test/executor (thread_pool)
#pragma once

#include "executor/sleepers.hpp"
#include "executor/worker.hpp"

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <span>

namespace turnstile::detail {

// By the worker itself, now and then; `all` are those of its pool. Looks at some of them, the next
// time at the next ones.
void even_out(worker& w, std::span<worker> all, steady_clock::time_point now,
              sleepers& idle) noexcept;

// A coroutine that never has to queue may be the only one here, while others wait elsewhere. But it
// goes behind what is taken, and so nothing is where somebody waits for it: who waits in line for
// what it holds, or its own thread, which blocks as soon as it is posted.
inline bool may_go_behind_others(const thread_state& t) noexcept {
  return !may_hold_sections(t.chain) && home_worker() != nullptr && t.bounce != nullptr &&
         t.bounce->is_outermost();
}

}  // namespace turnstile::detail
