// blocking_execution.hpp - what section.execute_blocking(body) does: the request lives on the
// calling thread's stack, and is served like everybody else's.
#pragma once

#include <turnstile/detail/blocked_thread.hpp>
#include <turnstile/detail/execution.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <source_location>
#include <utility>

namespace turnstile::detail {

template <class Body>
class blocking_execution : private execution<Body> {
  using base = execution<Body>;

 public:
  template <class B>
  blocking_execution(section_core& section, B&& body, const execute_options& options,
                     const std::source_location& where)
      : base(section, std::forward<B>(body), options, where) {
    this->stay_on_thread();
  }

  TURNSTILE_INLINE typename base::value run() {
    if (here().fiber != nullptr) [[unlikely]]
      return run_in_fiber();
    run_or_wait();
    return this->take();
  }

 private:
  TURNSTILE_COLD typename base::value run_in_fiber() {
    const not_in_fiber a_body_runs_here;
    this->begin_and_arrive();
    this->block_for_turn(me_);
    return this->take();
  }

  // Whoever is served here, and has no executor, goes on before this thread may block. But not
  // between taking a place and being in line, for it may block the thread there.
  TURNSTILE_INLINE void run_or_wait() {
    trampoline before_it(true);
    bool turn_ended = false;  // a thread has no turns
    if (const auto then = base::run_if_idle(here(), turn_ended); then == base::phase::waiting) {
      this->block_for_turn(me_);
    } else {
      this->phase_ = then;
    }
  }

  blocked_thread me_;
};

}  // namespace turnstile::detail
