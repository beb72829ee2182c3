// job.cpp - running a job in the surroundings its executor promises.

#include <turnstile/detail/thread_state.hpp>

namespace turnstile {

constinit thread_local detail::thread_state detail::this_thread_state;
char detail::any_call_may_change_this = 0;
[[gnu::noinline]] detail::thread_state& detail::here_by_a_call() noexcept {
  return this_thread_state;
}

bool detail::others_wait_here() noexcept {
  const thread_state& t = here();
  return (t.bounce != nullptr && t.bounce->has_waiting()) || (t.crowded != nullptr && t.crowded());
}

void job::run() noexcept {
  detail::thread_state& state = detail::here();
  const executor_ref runs_on_before = state.runs_on;
  state.runs_on = home_;
  detail::begin_turn();
  {
    const detail::chain_scope nothing_held{nullptr};
    detail::trampoline base;
    work_(*this);  // this may be gone
  }
  state.runs_on = runs_on_before;
}

}  // namespace turnstile
