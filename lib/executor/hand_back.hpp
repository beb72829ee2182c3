// hand_back.hpp - what a thread that serves a section has for the pool it belongs to.
#pragma once

#include <turnstile/executor.hpp>

namespace turnstile::detail {

struct worker;

// A chain of jobs for one worker of that pool.
void hand_back(worker& to, job* first, job* last) noexcept;

// In the middle of a long job: thieves shall know by now what this thread has done.
void note_work_here() noexcept;

}  // namespace turnstile::detail
