// section_request.cpp - a request's wait, told to the graph; and its withdrawal.

#include "base/captured.hpp"

#include <turnstile/detail/section_request.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <new>

namespace turnstile::detail {

const stand_in::calls section_request::turn_comes_once{&wait_is_over, nullptr, nullptr,
                                                       &never_let_in};

void section_request::never_let_in(request& r) noexcept {
  static_cast<section_request&>(r).leave_no_trace();
}

void section_request::leave_no_trace() noexcept {
  withdraw_uses();
  if (section_->recorded()) forget_execution(*section_, at_);
}

std::string section_request::label_of_wanted(const wait& w) {
  return static_cast<const section_core*>(w.wants)->label();
}

void section_request::keep_unless_claimed(const resource_list& uses) noexcept {
  if (section_->recorded() || !are_claimed(*section_, uses, at_.exclusive())) keep(uses);
}

void section_request::search(chain_frame* by) {
  section_->counting_refusal([&] {
    begin_wait(wait_, by);
    told_ = true;
  });
}

void section_request::tell_or_stay() {
  try {
    tell(chain_);
  } catch (...) {
    withdraw_uses();
    give_up_waiting();
    throw;
  }
}

void section_request::tell_or_leave() {
  try {
    tell_or_stay();
  } catch (...) {
    if (arrived_ == arrival::queued) section_->give_up(line_);
    throw;
  }
}

void section_request::accepted_watched() noexcept {
  accepted_at = section_->accept_watched(at_, declares() ? uses_ : resource_list{});
}

section_request::line_entry section_request::wait_in_line(request* own, bool elsewhere) {
  tell_if_queued();
  accepted();
  if (needs_stand_in(elsewhere)) [[unlikely]] {
    if (stand_in* const s = make_stand_in(turn_comes_once)) {
      return wait_by(*s, false) ? line_entry::waits : line_entry::withdrawn;
    }
  }
  return enter_line(own, elsewhere);
}

section_request::line_entry section_request::wait_for_turn(step to_start, bool body_may_wait,
                                                           bool elsewhere) {
  request* const own = elsewhere || must_hop() ? nullptr : this;
  await_turn(to_start, body_may_wait);
  return wait_in_line(own, elsewhere);
}

void section_request::block_for_turn(blocked_thread& me, step to_start, bool body_may_wait,
                                     bool elsewhere) {
  const auto enter = [&] {
    const blocked_thread::in_line until_it_waits(me);
    trampoline before_it(true);
    block_here(me);
    return wait_for_turn(to_start, body_may_wait, elsewhere);
  };
  switch (enter()) {
    case line_entry::waits: break;
    case line_entry::is_served: give_up_waiting(); return;
    case line_entry::withdrawn: me.need_not_wait(); return;
  }
  before_blocking();
  me.wait();
  stay();
}

void section_request::take_what_is_asked(section_request& other) noexcept {
  if (other.declares()) keep(other.uses_);
  if (other.is_sent()) resume_on(other.resume_on_);
  if (other.withdraws()) {
    ::new (static_cast<void*>(&asked_)) withdrawal_sources(std::move(other.asked_));
    asks_ |= asks::withdrawal;
  }
}

void section_request::destroyed_while_waiting() const noexcept {
  // Of a section that may be gone since its turn nothing is asked.
  contract_break(phase_ == phase::queued ? std::string() : section_->label(),
                 "a coroutine is destroyed while it waits", at_.where);
}

std::exception_ptr section_request::cancelled() const noexcept {
  if (section_->is_lost()) return section_->lost_with();
  return captured([&] { refuse_as_stopped(*section_); });
}

arrival section_request::await_one_body(section_core::place line, thread_state& t) noexcept {
  const arrival a = section_->await_one_body(line, t);
  if (a != arrival::owner) return a;
  if (!is_stopped_here(t) &&
      !(withdraws() && asked_.deadline != never && has_come(asked_.deadline)))
    return a;
  section_->park_again();  // it is withdrawn as any other
  return arrival::queued;
}

bool section_request::is_stopped_here(const thread_state& t) const noexcept {
  return is_stopped() || is_stopped_by_now(t.chain);
}

std::exception_ptr section_request::withdrawn_by_now() const noexcept {
  if (comes_too_late()) return cancelled();
  if (!withdraws()) return nullptr;
  return captured([&] { refuse_if_withdrawn(*section_, asked_); });
}

void section_request::arrive_where_refused() {
  const section_core::admission how = section_->admit();
  switch (how) {
    case section_core::admission::in:
      arrived_ = section_->arrive(line_);
      if (arrived_ == arrival::closed) section_->give_up_room();
      return;
    case section_core::admission::outside:
      line_ = {};
      arrived_ = arrival::outside;
      return;
    default: withdraw_uses(); std::rethrow_exception(section_->refusal(how));
  }
}

stand_in* section_request::try_make_stand_in(const stand_in::calls& c) noexcept {
  stand_in_ = detail::make_stand_in(*this, *section_, c);
  if (stand_in_ == nullptr) return nullptr;
  if (withdraws()) stand_in_->listen_to(asked_);
  // Whoever is set aside may never have a turn to be told in.
  if (c.may_run != nullptr || can_be_stopped(chain_)) {
    stand_in_->listen_to(any_surrounding_stop(chain_));
  }
  return stand_in_;
}

stand_in* section_request::make_stand_in(const stand_in::calls& c) {
  stand_in* const made = try_make_stand_in(c);
  if (made == nullptr && arrived_ == arrival::outside) {
    give_up_waiting();
    leave_no_trace();
    throw std::bad_alloc();
  }
  return made;
}

bool section_request::wait_by(stand_in& s, bool keeps_token) noexcept {
  // Its stand-in has one, so most who wait need it no more, but for the graph.
  if (withdraws() && !told_ && !keeps_token) asked_.stop.let_go();
  const arrival found = arrived_;
  begin_to_wait();
  return section_->put_in_line(s, found, line_) || !goes_on_here();
}

bool section_request::was_withdrawn_meanwhile(stand_in& s) noexcept {
  return s.unpin() && goes_on_here();
}

// It was withdrawn, and this thread is who brings it back. False: elsewhere, and this may be gone.
bool section_request::goes_on_here() noexcept {
  if (is_sent()) {
    resume_at_home(*this);
    return false;
  }
  take_wait_back();
  stay();
  return true;
}

void section_request::give_up_closing() noexcept {
  stand_in* const s = std::exchange(stand_in_, nullptr);
  if (!s->take()) {
    s->pass_over();
    static_cast<void>(s->unpin());
  }
  static_cast<void>(s->let_go());
}

void section_request::throw_if_withdrawn() {
  if (std::exception_ptr why = std::exchange(stand_in_, nullptr)->let_go()) {
    std::rethrow_exception(std::move(why));
  }
}

}  // namespace turnstile::detail
