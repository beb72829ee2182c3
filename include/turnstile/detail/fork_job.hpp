// fork_job.hpp - where a fork goes, and what else shall run before all that waits.
#pragma once

#include <turnstile/executor.hpp>

#include <cstddef>
#include <cstdint>

namespace turnstile::detail {

// A chain to what the calling thread runs on, and the jobs' home: on a pool's worker onto its own
// stack of forks, the last one on top.
void post_forks(executor_ref runs_on, job* first, job* last, std::size_t n) noexcept;

// Where a job stands among those of the calling worker, if that is where it goes: before all
// others, for what many may be waiting for, or behind them.
enum class queued : std::uint8_t { next, last };
void post(executor_ref to, job& j, queued where) noexcept;

}  // namespace turnstile::detail
