// job.cpp - running a job in the surroundings its executor promises.

#include "executor/turn_length.hpp"

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/manual_executor.hpp>
#include <turnstile/thread_pool.hpp>

#include <chrono>
#include <cstdint>
#include <utility>

namespace turnstile {

namespace {

// Where it cannot be asked what waits there, something may: once in as many turns as a lone
// coroutine of a pool has until that is asked there, at most.
constexpr std::uint8_t turns_unasked = detail::lone_turns::most_bodies / detail::bodies_in_a_turn;

bool others_wait_at(executor_ref e, detail::thread_state& t) noexcept {
  if (const auto* const manual = detail::job_access::as<manual_executor>(e)) {
    return manual->pending() != 0;
  }
  return ++t.turns_in_job % turns_unasked == 0;
}

// Whoever is resumed within a call goes on there as a rule, in the order in which it was resumed,
// and what is over within this is not torn apart.
constexpr std::chrono::milliseconds longest_kept{500};

}  // namespace

bool detail::trampoline::keeps_its_caller() noexcept {
  if (is_over_ != nullptr && !is_over_(stays_)) return false;
  const auto now = steady_clock::now();
  if (kept_since_ == steady_clock::time_point{}) kept_since_ = now;
  return now - kept_since_ > longest_kept;
}

bool detail::others_wait_here() noexcept {
  thread_state& t = here();
  if (t.bounce != nullptr && t.bounce->has_waiting()) return true;
  if (keeps_a_call()) return true;
  if (t.runs_on && t.runs_on != t.pool) return others_wait_at(t.runs_on, t);
  return t.crowded != nullptr && t.crowded();
}

void detail::resume_later(job& j) noexcept {
  if (!job_access::home(j) && keeps_a_call()) {
    executor_ref(thread_pool::shared()).post(j);
  } else {
    resume_at_home(j);
  }
}

void detail::trampoline::give_away_all() noexcept {
  for (trampoline* t = here().bounce; t != nullptr; t = t->outer_) {
    while (job* const j = t->jobs_.pop()) {
      executor_ref(thread_pool::shared()).post(*j);  // j may be gone
    }
  }
}

void job::run() noexcept {
  detail::thread_state& state = detail::here();
  const executor_ref runs_on_before = state.runs_on;
  state.runs_on = home_;
  // Whatever this is on top of: else what was posted to get off it would be posted again.
  const bool below_held = std::exchange(state.below_holds, false);
  detail::written_here* const below_writes = std::exchange(state.writes_below, state.writes);
  detail::begin_turn();
  state.turns_in_job = 0;
  {
    const detail::chain_scope nothing_held{nullptr};
    const detail::not_in_fiber whatever_runs_here;
    detail::trampoline base;
    work_(*this);  // this may be gone
  }
  state.runs_on = runs_on_before;
  state.below_holds = below_held;
  state.writes_below = below_writes;
}

}  // namespace turnstile
