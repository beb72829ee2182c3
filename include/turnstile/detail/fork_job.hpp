// fork_job.hpp - where a fork goes, and what else shall run before all that waits.
#pragma once

#include <turnstile/executor.hpp>

#include <cstdint>

namespace turnstile::detail {

// To what the calling thread runs on: on a pool's worker onto its own stack of forks. False: it
// runs on nothing, and the job is still the caller's.
[[nodiscard]] bool post_fork(job& j) noexcept;

// Where a job stands among those of the calling worker, if that is where it goes: before all
// others, for what many may be waiting for, or behind them.
enum class queued : std::uint8_t { next, last };
void post(executor_ref to, job& j, queued where) noexcept;

}  // namespace turnstile::detail
