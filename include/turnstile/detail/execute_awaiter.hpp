// execute_awaiter.hpp - what co_await section.execute(body) does.
//
// The uncontended path is all here: arrive, run the body, leave, without suspending. Everything that
// does not depend on the body's type is in lib/strand. Kept inline for bench/uncontended.
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>

#include <coroutine>
#include <source_location>
#include <utility>

namespace turnstile::detail {

// What an execution and a lock have in common: one-shot, movable until it is awaited.
class section_request : protected suspended<request> {
 public:
  section_core& section() const noexcept { return *section_; }
  const site& place() const noexcept { return at_; }

 protected:
  enum class phase : unsigned char { fresh, moved_from, awaited, waiting };

  section_request(section_core& section, const execute_options& options,
                  const std::source_location& where) noexcept
      : section_(&section), at_(options.name, where) {
    if (options.resume_on) [[unlikely]] resume_on_ = options.resume_on;
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
    if (phase_ != phase::fresh) [[unlikely]] misused(phase_);
    phase_ = phase::awaited;
    if (here().chain != nullptr) [[unlikely]] check_reentry();
  }

  bool must_hop() const noexcept { return resume_on_ && resume_on_ != here().runs_on; }

  void suspend_as(std::coroutine_handle<> h, step start, bool may_wait) noexcept {
    suspend(h, resume_on_ ? resume_on_ : here().runs_on);
    this->start = start;
    this->may_wait = may_wait;
    phase_ = phase::waiting;
  }

  // The request was served by this very call: the coroutine need not suspend.
  bool stay_here() noexcept {
    stay();
    phase_ = phase::awaited;
    return false;
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

template <class Body>
class [[nodiscard("nothing runs until the result is awaited")]] execute_awaiter
    : private section_request {
  using value = body_result_t<Body>;
  static constexpr bool may_wait = waits<Body>;

 public:
  template <class B>
  execute_awaiter(section_core& section, B&& body, const execute_options& options,
                  const std::source_location& where)
      : section_request(section, options, where), body_(std::forward<B>(body)) {}

  execute_awaiter(execute_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Body>)
      : section_request(std::move(other)), body_(std::move(other.body_)) {}

  TURNSTILE_INLINE bool await_ready() {
    begin();
    if (section_->bound_elsewhere()) [[unlikely]] return await_bound();
    section_core::place line;
    const arrival arrived = section_->arrive(line);
    if constexpr (!may_wait) {
      if (arrived == arrival::owner && !resume_on_) [[likely]] {
        run_body(here().chain);
        if (!section_->leave(line)) [[likely]] return true;
        turn_over_ = true;
        return false;
      }
    }
    if (arrived == arrival::closed) refuse();
    arrived_ = arrived;
    line_ = line;
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    if (turn_over_) return give_turn(h);
    const bool elsewhere = section_->bound_elsewhere();
    request* const own = elsewhere || must_hop() ? nullptr : this;
    suspend_as(h, &begin_body, may_wait);
    section_core& section = *section_;  // this may be gone after publishing or posting
    if (arrived_ == arrival::owner) {
      if (elsewhere) {
        section.post_first(line_, *this);
        return true;
      }
      return !section.serve_first(line_, *this, own) || stay_here();
    }
    switch (section.publish(*this, line_, own)) {
      case section_core::published::waiting:
        return true;
      case section_core::published::own_served:
        return stay_here();
      case section_core::published::closed:
        break;
    }
    stay_here();
    refuse();
  }

  value await_resume() {
    phase_ = phase::awaited;
    if (left_ != nullptr) [[unlikely]] adopt_holds(*left_);
    return got_.take();
  }

  // For waiting_body.
  using section_request::place;
  using section_request::section;
  request& as_request() noexcept { return *this; }
  result<value>& got() noexcept { return got_; }
  chain_frame*& left_behind() noexcept { return left_; }

 private:
  // The body has run; only the thread is given to others that wait for it.
  bool give_turn(std::coroutine_handle<> h) noexcept {
    suspend(h);
    here().runs_on.post(*this);  // this may be gone
    return true;
  }

  TURNSTILE_COLD bool await_bound() {
    arrived_ = section_->arrive(line_);
    if (arrived_ == arrival::closed) refuse();
    return false;
  }

  TURNSTILE_INLINE void run_body(chain_frame* requester) noexcept {
    left_ = run_held(*section_, requester, at_, [this] {
      got_.run([this]() -> decltype(auto) { return std::invoke(body_); });
    });
  }

  static outcome begin_body(request& r) noexcept {
    auto& self = static_cast<execute_awaiter&>(r);
    if constexpr (may_wait) {
      return self.waiting_.start(self, self.body_, self.chain_);
    } else {
      self.run_body(self.chain_);
      return outcome::finished;
    }
  }

  Body body_;
  result<value> got_;
  chain_frame* left_ = nullptr;
  bool turn_over_ = false;
  [[no_unique_address]] std::conditional_t<may_wait, waiting_body<Body, execute_awaiter>,
                                           no_waiting_body> waiting_;
};

}  // namespace turnstile::detail
