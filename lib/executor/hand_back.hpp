// hand_back.hpp - a chain of jobs for one worker of the pool that the calling thread belongs to.
#pragma once

#include <turnstile/executor.hpp>

namespace turnstile::detail {

struct worker;

void hand_back(worker& to, job* first, job* last) noexcept;

}  // namespace turnstile::detail
