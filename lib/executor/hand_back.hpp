// hand_back.hpp - what a thread that serves a section has for the pool it belongs to.
#pragma once

#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

namespace turnstile::detail {

struct worker;

// A chain of jobs for one worker of that pool.
void hand_back(worker& to, job* first, job* last) noexcept;

// Whether this thread may try to be brisk until then (pace.hpp). Not where what it serves goes back
// to another executor.
[[nodiscard]] bool may_try_here(steady_clock::time_point now,
                                steady_clock::time_point end) noexcept;

// In the middle of a long job: thieves shall know by now what this thread has done.
void note_work_here() noexcept;

}  // namespace turnstile::detail
