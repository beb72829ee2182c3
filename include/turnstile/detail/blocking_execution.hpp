// blocking_execution.hpp - what section.execute_blocking(body) does: the request lives on the
// calling thread's stack, and is served like everybody else's.
#pragma once

#include <turnstile/detail/blocked_thread.hpp>
#include <turnstile/detail/execution.hpp>

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

  typename base::value run() {
    if (here().fiber != nullptr) [[unlikely]]
      return run_in_fiber();
    return run_here();
  }

 private:
  TURNSTILE_COLD typename base::value run_in_fiber() {
    const not_in_fiber a_body_runs_here;
    return run_here();
  }

  TURNSTILE_INLINE typename base::value run_here() {
    if (const auto then = run_if_idle(); then == base::phase::waiting) {
      wait();
    } else {
      this->phase_ = then;
    }
    return this->take();
  }

  // Whoever is served here, and has no executor, goes on before this thread may block.
  TURNSTILE_INLINE auto run_if_idle() {
    const trampoline before_it(true);
    bool turn_ended = false;  // a thread has no turns
    return base::run_if_idle(here(), turn_ended);
  }

  void wait() {
    switch (wait_for_turn()) {
      case base::line_entry::waits: break;
      case base::line_entry::is_served: this->give_up_waiting(); return;
      case base::line_entry::withdrawn: me_.need_not_wait(); return;
    }
    before_blocking();
    me_.wait();
    this->stay();
  }

  typename base::line_entry wait_for_turn() {
    const blocked_thread::in_line until_it_waits(me_);
    const trampoline before_it(true);
    this->block_here(me_);
    return base::wait_for_turn();
  }

  blocked_thread me_;
};

}  // namespace turnstile::detail
