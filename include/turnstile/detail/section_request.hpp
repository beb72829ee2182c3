// section_request.hpp - what every awaitable request to a section has in common.
#pragma once

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/suspended.hpp>
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
    if (here().chain != nullptr) [[unlikely]]
      check_reentry();
  }

  bool must_hop() const noexcept { return resume_on_ && resume_on_ != here().runs_on; }

  void suspend_as(std::coroutine_handle<> h, step start, bool may_wait) noexcept {
    suspend(h, resume_on_ ? resume_on_ : here().runs_on);
    back_to = resume_on_ ? nullptr : home_worker();
    this->start = start;
    this->may_wait = may_wait;
    accepted_at = 0;
    phase_ = phase::waiting;
  }

  // The request was served by this very call: the coroutine need not suspend, unless others wait for
  // the thread.
  bool stay_here(std::coroutine_handle<> h) noexcept {
    give_up_waiting();
    return turn_is_over() && give_turn(h);
  }
  void give_up_waiting() noexcept {
    stay();
    phase_ = phase::awaited;
  }

  // The request is served; only the thread is given to others.
  bool give_turn(std::coroutine_handle<> h) noexcept {
    suspend(h);
    resume_at_home(*this);  // this may be gone
    return true;
  }

  // After arrive said owner or queued.
  void accepted() noexcept {
    if (section_->watched()) [[unlikely]]
      accepted_at = section_->accept_watched(at_);
  }

  // The section was closed between arriving and publishing.
  [[noreturn]] TURNSTILE_COLD void refuse_late() {
    give_up_waiting();
    if (section_->recorded()) forget_execution(*section_, at_);
    refuse();
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
  TURNSTILE_COLD void check_reentry() {
    try {
      refuse_if_held(*section_, at_);
      note_order(*section_, at_);
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
};

}  // namespace turnstile::detail
