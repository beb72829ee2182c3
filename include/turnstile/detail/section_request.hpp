// section_request.hpp - what every awaitable request to a section has in common.
#pragma once

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>

#include <coroutine>
#include <source_location>

namespace turnstile::detail {

// One-shot, movable until it is awaited.
class section_request : protected suspended<request> {
 public:
  section_core& section() const noexcept { return *section_; }
  const site& place() const noexcept { return at_; }

 protected:
  enum class phase : unsigned char { fresh, moved_from, awaited, served, waiting };

  section_request(section_core& section, const execute_options& options,
                  const std::source_location& where) noexcept
      : section_(&section), at_(options.name, where) {
    if (options.resume_on) [[unlikely]]
      resume_on_ = options.resume_on;
  }

  section_request(section_request&& other) noexcept
      : section_(other.section_), at_(other.at_), resume_on_(other.resume_on_) {
    if (other.phase_ != phase::fresh) misused(other.phase_);
    other.phase_ = phase::moved_from;
  }

  ~section_request() {
    if (phase_ == phase::waiting) [[unlikely]] {
      contract_break(section_->label(), "a coroutine is destroyed while it waits", at_.where);
    }
  }

  // Before anything is claimed. Throws what refuses the request.
  TURNSTILE_INLINE void begin() {
    if (phase_ != phase::fresh) [[unlikely]]
      misused(phase_);
    phase_ = phase::awaited;
    if (const chain_frame* const top = here().chain; top != nullptr && top->mask != 0) [[unlikely]]
      check_reentry();
  }

  bool must_hop() const noexcept { return resume_on_ && resume_on_ != here().runs_on; }

  template <class P>
  void suspend_as(std::coroutine_handle<P> h, step start, bool may_wait) noexcept {
    this->suspend(h, resume_on_ ? resume_on_ : here().runs_on);
    back_to = resume_on_ ? nullptr : home_worker();
    this->start = start;
    this->may_wait = may_wait;
    phase_ = phase::waiting;
  }

  // The request was served by this very call: the coroutine need not suspend, unless others wait for
  // the thread.
  template <class P>
  bool stay_here(std::coroutine_handle<P> h) noexcept {
    give_up_waiting();
    return turn_is_over() && give_turn(h);
  }
  void give_up_waiting() noexcept {
    end_wait(wait_);
    stay();
    phase_ = phase::awaited;
  }

  // After it arrived as queued, and before it is published: the wait is told to the graph. Throws
  // deadlock_error if it would never end; its place in line is left to nobody.
  void tell_of_wait() {
    if (chain_ != nullptr) [[unlikely]]
      tell_or_leave();
  }
  // Before the section is closed: the wait for all that was accepted.
  void tell_of_end() {
    if (chain_ != nullptr) [[unlikely]]
      tell();
  }
  // By whoever serves it, when its turn has come and before anything is done with the section.
  void turn_has_come() noexcept {
    if (wait_.where != told::not_at_all) [[unlikely]]
      over_.store(true, release);  // G1
  }
  // By the waiter when it goes on.
  void waited() noexcept {
    phase_ = phase::awaited;
    end_wait(wait_);
  }

  // The request is served; only the thread is given to others.
  template <class P>
  bool give_turn(std::coroutine_handle<P> h) noexcept {
    this->suspend(h);
    resume_at_home(*this);  // this may be gone
    return true;
  }

  [[noreturn]] TURNSTILE_COLD void refuse() {
    section_->count_refusal();
    throw section_closed(section_->label());
  }

  section_core* section_;
  site at_;
  executor_ref resume_on_;
  phase phase_ = phase::fresh;
  arrival arrived_;
  section_core::place line_;

 private:
  void tell();
  void tell_or_leave();
  TURNSTILE_COLD void check_reentry() {
    try {
      refuse_if_held(*section_, at_);
    } catch (...) {
      section_->count_refusal();
      throw;
    }
  }
  [[noreturn]] TURNSTILE_COLD void misused(phase p) const noexcept {
    contract_break(section_->label(),
                   p == phase::moved_from ? "an execution is used that was moved from"
                                          : "an execution is awaited twice",
                   at_.where);
  }

  wait wait_;
  atomic<bool> over_{false};
};

}  // namespace turnstile::detail
