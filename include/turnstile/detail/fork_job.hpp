// fork_job.hpp - where a fork goes.
#pragma once

#include <turnstile/executor.hpp>

namespace turnstile::detail {

// To what the calling thread runs on: on a pool's worker onto its own stack of forks. False: it runs on
// nothing, and the job is still the caller's.
[[nodiscard]] bool post_fork(job& j) noexcept;

}  // namespace turnstile::detail
