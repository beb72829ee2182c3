// job.cpp - running a job in the surroundings its executor promises.

#include <turnstile/detail/thread_state.hpp>
#include <turnstile/thread_pool.hpp>

#include <utility>

namespace turnstile {

bool detail::others_wait_here() noexcept {
  const thread_state& t = here();
  return (t.bounce != nullptr && t.bounce->has_waiting()) || (t.crowded != nullptr && t.crowded());
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
  detail::begin_turn();
  {
    const detail::chain_scope nothing_held{nullptr};
    const detail::not_in_fiber whatever_runs_here;
    detail::trampoline base;
    work_(*this);  // this may be gone
  }
  state.runs_on = runs_on_before;
  state.below_holds = below_held;
}

}  // namespace turnstile
