// delegated_hold.cpp - a fiber's code between lock and unlock. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/delegated_hold.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/yield.hpp>

namespace turnstile::detail {

// The wait for the section.
struct delegated_hold::beginning {
  delegated_hold& its;

  bool await_ready() { return its.is_owned_at_once(); }
  bool await_suspend(fiber_core::handle h) {
    // It may wait, but that is rare, and the loop need not hand back first what it has served.
    its.suspend_as(h, &run_body, false);
    its.back_to = nullptr;  // its stack comes over to who serves it: of one pool, it stays there
    return its.wait_for_turn();
  }
  void await_resume() {
    its.waited();
    if (its.refusal_ != nullptr) std::rethrow_exception(std::move(its.refusal_));
    its.hold();
  }
};

// The end of a body: the fiber goes back to the executor that it waited on.
struct delegated_hold::ending {
  delegated_hold& its;

  bool await_ready() const noexcept { return false; }
  void await_suspend(fiber_core::handle h) const noexcept {
    its.suspend(h, job_access::home(its));
    its.end_body();  // its may be gone
  }
  void await_resume() const noexcept {}
};

delegated_hold::delegated_hold(delegated_mutex& mutex, section_core& section,
                               const std::source_location& where, delegated_hold* outer)
    : section_request(section, default_execution, where), mutex_(&mutex), outer_(outer) {}

void delegated_hold::acquire(fiber_core& f) { fiber_wait<beginning>(beginning{*this}).await(f); }

void delegated_hold::acquired(section_core::place line) noexcept {
  phase_ = phase::awaited;
  line_ = line;
  hold();
}

void delegated_hold::release(fiber_core& f) noexcept {
  let_go();
  if (is_body_) {
    fiber_wait<ending>(ending{*this}).await(f);
    return;
  }
  if (section_->timed()) section_->end_time();
  section_->leave_tried(line_);
  // Who changes a variable does not wait.
  if (here().writes == nullptr && turn_is_over()) fiber_wait<yield_awaiter>(yield()).await(f);
}

bool delegated_hold::is_owned_at_once() {
  begin();
  if (section_->may_refuse()) {
    arrive();
    return false;
  }
  arrived_ = section_->arrive(line_);
  if (arrived_ == arrival::closed) refuse();
  return arrived_ == arrival::owner && !section_->special() && !is_stopped_since(here());
}

// True: the coroutine stays suspended, and this may be gone.
bool delegated_hold::wait_for_turn() {
  return wait_in_line(nullptr, section_->bound_elsewhere()) == line_entry::waits;
}

outcome delegated_hold::run_body(request& r) noexcept {
  auto& self = static_cast<delegated_hold&>(r);
  self.turn_has_come();
  if (self.comes_too_late()) {
    self.refusal_ = self.cancelled();
    return outcome::no_body;
  }
  self.is_body_ = true;
  self.resume_within();
  return self.stage_.exchange(returned_from, acq_rel) == over ? outcome::finished  // S1
                                                              : outcome::suspended;
}

void delegated_hold::end_body() noexcept {
  if (stage_.exchange(over, acq_rel) == returned_from) section_->body_finished(*this);  // S1
}

void delegated_hold::hold() noexcept {
  chain_top& top = here().chain;
  static_cast<chain_frame&>(frame_) = frame_on(top, section_, &at_);
  below_ = std::exchange(top, &frame_);
}

// Guards that were taken meanwhile, and not given up, go with the fiber.
void delegated_hold::let_go() noexcept {
  chain_top& top = here().chain;
  chain_frame* const after = std::exchange(top, below_);
  chain_frame* const left = after == &frame_ ? nullptr : cut_holds(after, &frame_);
  end_frame(frame_);
  if (left != nullptr) adopt_holds(*left);
}

void delegated_hold::misused(std::string_view what) const noexcept {
  contract_break(section_->label(), what, at_.where);
}

}  // namespace turnstile::detail
