// several.cpp - entering several sections and leaving them. The protocol is in the header.

#include "executor/or_shared.hpp"
#include "strand/batch.hpp"
#include "strand/budget.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/several_request.hpp>

#include <algorithm>
#include <new>
#include <stdexcept>

namespace turnstile::detail {

namespace {

bool goes_before(const held_section& a, const held_section& b) noexcept {
  const bool a_bound{a.section->executor()};
  const bool b_bound{b.section->executor()};
  return a_bound != b_bound ? b_bound : a.section->id() < b.section->id();
}

bool is_same(const held_section& a, const held_section& b) noexcept {
  return a.section == b.section;
}

}  // namespace

void several_request::put_in_order(held_section* all, std::size_t n) {
  std::sort(all, all + n, goes_before);
  count_ = static_cast<std::size_t>(std::unique(all, all + n, is_same) - all);
  const executor_ref last = all[count_ - 1].section->executor();
  for (std::size_t i = 0; i != count_; ++i) {
    const executor_ref one = all[i].section->executor();
    if (one && one != last) {
      throw std::invalid_argument(
          "turnstile: sections \"" + all[i].section->label() + "\" and \"" +
          all[count_ - 1].section->label() +
          "\" are bound to different executors; one body cannot run on both");
    }
  }
}

void several_request::begin(held_section* all) {
  held_ = all;
  note_begun();
  if (is_in_chain(here().chain)) {
    for (std::size_t i = 0; i != count_; ++i) {
      section_ = held_[i].section;
      refuse_reentry();
    }
    check_stop();
  }
  section_ = &section();
  if (withdraws()) refuse_if_withdrawn(*section_, asked_);
  if (!declares()) return;
  try {
    claim_all();
  } catch (...) {
    for (std::size_t i = 0; i != count_; ++i) held_[i].section->count_refusal();
    throw;
  }
}

void several_request::claim_all() {
  for (std::size_t i = 0; i != count_; ++i) {
    if (!held_[i].section->where().is_any()) refuse_elsewhere(*held_[i].section, uses_, false);
  }
  claim_together(held_, count_, uses_, at_.exclusive());
}

// Of a request that is withdrawn while it waits: that was no refusal, and what is asked for stays
// so. One of the sections may be gone.
void several_request::leave_claimed() noexcept {
  for (std::size_t i = 0; i != count_; ++i) held_[i].claims = {};
}

// Once all are entered.
void several_request::keep_claimed() noexcept {
  for (std::size_t i = 0; i != count_; ++i) {
    if (held_[i].claims.empty()) continue;
    keep_claims(*held_[i].section, held_[i].claims, at_.exclusive());
    held_[i].claims = {};
  }
}

void several_request::withdraw_claimed() noexcept {
  for (std::size_t i = 0; i != count_; ++i) {
    if (held_[i].claims.empty()) continue;
    withdraw_claims(*held_[i].section, held_[i].claims, at_.exclusive());
    held_[i].claims = {};
  }
}

bool several_request::enter_all() noexcept {
  for (std::size_t i = 0; i != count_; ++i) {
    static_cast<chain_frame&>(held_[i].frame) = frame_on(holds(i), held_[i].section, &at_);
    note_order(holds(i), *held_[i].section, at_);
  }
  hops_ = must_hop();
  is_own_ = true;
  batch done(rests_on_held());
  go_on(done);  // this may be gone unless it is kept as the call's own
  done.deliver();
  return done.take_own();
}

// Enters what can be entered; once it is all, runs the body. This may be gone afterwards.
void several_request::go_on(batch& done) noexcept {
  if (entered_ != 0) {
    refusal_ = withdrawn_by_now();
  } else if (comes_too_late()) {
    refusal_ = cancelled();
  }
  if (refusal_ != nullptr && (stand_in_ != nullptr || !section_->is_lost())) leave_claimed();
  take_wait_back();
  drop_stand_in();
  if (refusal_ != nullptr) return leave(done);
  while (entered_ != count_) {
    switch (enter(done)) {
      case entry::owned: break;
      case entry::waiting: return;
      case entry::refused: leave(done); return;
    }
  }
  keep_claimed();
  const bool own = take_own();
  outcome what{};
  {
    const batch::while_bodies_run may_block(done);
    what = run_body_(*this);
  }
  if (what != outcome::finished) return;
  is_own_ = own;
  leave(done);
}

// Takes a place in the next section's line. Here, and nowhere else, a request begins to wait.
several_request::entry several_request::enter(batch& done) noexcept {
  section_core& s = *held_[entered_].section;
  section_ = &s;
  const bool own = take_own();
  const section_core::admission how = s.admit();
  if (how == section_core::admission::in) {
    arrived_ = s.arrive(line_);
    if (arrived_ == arrival::closed) s.give_up_room();
  } else {
    arrived_ = how == section_core::admission::outside ? arrival::outside : arrival::closed;
  }
  if (arrived_ == arrival::closed) return refused_with(s.refusal(how), own);
  const bool is_owner = arrived_ == arrival::owner;
  if (is_owner && s.is_lost()) [[unlikely]] {  // meanwhile
    s.leave_unused(line_);
    return refused_with(s.refusal(section_core::admission::lost), own);
  }
  if (is_owner && !s.bound_elsewhere()) {
    s.hold_first(line_);
    if (s.watched()) [[unlikely]] {
      held_[entered_].recorded = s.recorded();
      s.begin_tried(at_, declared());
    }
    count_entered();
    is_own_ = own;
    return entry::owned;
  }
  if (!is_owner && !tell_of_wait()) return refused_with(std::move(refusal_), own);
  if (needs_stand_in()) {
    if (stand_in* const in = try_make_stand_in(turn_comes_often)) return wait_by(*in, own);
    if (arrived_ == arrival::outside) {
      return refused_with(std::make_exception_ptr(std::bad_alloc()), own);
    }
  }
  note_accepted();
  if (is_owner) {
    begin_to_wait();
    s.post_first(line_, *this);
    return entry::waiting;  // this may be gone
  }
  if (s.publish(*this, line_, done) == section_core::published::closed) {
    if (held_[entered_].recorded) forget_execution(s, at_);
    return refused_with(s.refusal(section_core::admission::closed), own);
  }
  // If its turn came within the call, nobody else has it; else this may be gone.
  if (own && done.last_entered() == this) is_own_ = own;
  return entry::waiting;
}

several_request::entry several_request::refused_with(std::exception_ptr why, bool own) noexcept {
  forget_recorded(entered_);
  return ends_with(std::move(why), own);
}

void several_request::forget_recorded(std::size_t first_n) noexcept {
  for (std::size_t i = 0; i != first_n; ++i) {
    if (held_[i].recorded) forget_execution(*held_[i].section, at_);
  }
}

// What it has entered is left before the coroutine goes on, so the graph must not see it any more.
several_request::entry several_request::ends_with(std::exception_ptr why, bool own) noexcept {
  take_wait_back();
  is_own_ = own;
  refusal_ = std::move(why);
  return entry::refused;
}

// False: it would never end.
bool several_request::tell_of_wait() noexcept {
  chain_frame* const by = holds(entered_);
  if (by == nullptr || ends_by_itself()) return true;
  try {
    tell(by);
    return true;
  } catch (...) {
    if (arrived_ == arrival::queued) section_->give_up(line_);
    refusal_ = std::current_exception();
    return false;
  }
}

const stand_in::calls several_request::turn_comes_often{&withdrawn, nullptr, nullptr, &never_in};

// This may be gone if it waits.
several_request::entry several_request::wait_by(stand_in& s, bool own) noexcept {
  note_accepted();
  const arrival found = arrived_;
  begin_to_wait();
  if (section_->put_in_line(s, found, line_)) return entry::waiting;
  be_awaited_again();
  leave_claimed();
  return ends_with(std::exchange(stand_in_, nullptr)->let_go(), own);
}

// Of the section that it got.
void several_request::drop_stand_in() noexcept {
  if (stand_in_ != nullptr) static_cast<void>(std::exchange(stand_in_, nullptr)->let_go());
}

void several_request::never_in(request& r) noexcept {
  auto& self = static_cast<several_request&>(r);
  self.withdraw_claimed();
  self.forget_recorded(self.entered_ + 1);
}

// What it holds is left on an executor, since leaving serves others.
void several_request::withdrawn(request& r) noexcept {
  auto& self = static_cast<several_request&>(r);
  self.turn_has_come();
  self.be_posted(&leave_posted);
  self.home_ = or_shared(self.back_on_);
}

void several_request::leave_posted(job& j) noexcept {
  auto& self = static_cast<several_request&>(static_cast<request&>(j));
  self.be_awaited_again();
  self.take_wait_back();
  self.leave_claimed();
  self.refusal_ = std::exchange(self.stand_in_, nullptr)->let_go();
  batch done;
  self.leave(done);
  done.deliver();
}

void several_request::be_posted(work what) noexcept {
  back_by_ = work_;
  back_on_ = home_;
  work_ = what;
}

void several_request::be_awaited_again() noexcept {
  work_ = back_by_;
  home_ = back_on_;
}

// It is this request's turn in a section. Here, and nowhere else, a wait ends.
outcome several_request::granted(request& r) noexcept {
  auto& self = static_cast<several_request&>(r);
  self.turn_has_come();
  self.count_entered();
  return outcome::entered;
}

// All are left before any is served on. This may be gone at the end.
void several_request::leave(batch& done) noexcept {
  const bool executed = refusal_ == nullptr;
  section_ = &section();
  if (!executed) withdraw_claimed();
  for (std::size_t i = entered_; i-- != 0;) {
    end_frame(held_[i].frame);
    held_[i].next = held_[i].section->end_hold(executed, done);
  }
  // Different sections can be served at the same time, if there is somebody to do it.
  const bool elsewhere = static_cast<bool>(here().runs_on);
  done.owe(this);
  for (std::size_t i = entered_; i-- != 0;) {
    request* const next = std::exchange(held_[i].next, nullptr);
    if (next == nullptr) continue;
    section_core& s = *held_[i].section;
    if (!has_next_below(i)) {
      done.owe(nullptr);
      hand_back(done);  // this may be gone, unless it is kept as the call's own
      return go_on_with(s, *next, false, done);
    }
    go_on_with(s, *next, elsewhere, done);
    if (!done.owes()) return;  // a body has blocked the thread, and this may be gone
  }
  done.owe(nullptr);
  hand_back(done);  // this may be gone
}

bool several_request::has_next_below(std::size_t i) const noexcept {
  return std::any_of(held_, held_ + i, [](const held_section& h) { return h.next != nullptr; });
}

// Who has entered one of them meanwhile goes on after this, and a body that is served here may wait
// for that section.
void several_request::go_on_with(section_core& s, request& next, bool elsewhere,
                                 batch& done) noexcept {
  if (elsewhere || done.has_entered()) {
    s.pass_to_executor(next, done);
  } else {
    s.serve_on(next, done);
  }
}

// A body that runs here meanwhile blocks the thread, perhaps for one of those, or for who leaves
// them.
void several_request::give_away_owed(batch& done) noexcept {
  for (std::size_t i = entered_; i-- != 0;) {
    if (request* const next = std::exchange(held_[i].next, nullptr)) {
      held_[i].section->pass_to_executor(*next, done);
    }
  }
  done.owe(nullptr);
  hand_back(done);  // this may be gone
}

void give_away_owed(several_request& r, batch& done) noexcept { r.give_away_owed(done); }

void several_request::hand_back(batch& done) noexcept {
  if (is_own_ && (!hops_ || refusal_ != nullptr)) {
    done.keep_own(*this);
  } else {
    done.add(*this);
  }
}

void several_request::body_ended() noexcept {
  batch done(here().below_holds);
  leave(done);
  done.deliver();
}

void several_request::go_on_elsewhere() noexcept {
  is_own_ = false;
  be_posted(&go_on_posted);
  executor_ref to;
  if (entered_ == count_) to = section().executor();  // before, it waits in line for that
  if (!to) to = here_or_home(home_, true);
  to.post(*this);  // this may be gone
}

void several_request::go_on_posted(job& j) noexcept {
  auto& self = static_cast<several_request&>(static_cast<request&>(j));
  self.be_awaited_again();
  batch done;
  self.go_on(done);
  done.deliver();
}

void several_request::go_on_with_all(batch& done) noexcept {
  budget left(budget::callers);
  while (request* const r = done.take_entered()) {
    static_cast<several_request&>(*r).go_on(done);
    switch (left.after_body()) {
      case budget::verdict::go_on: break;
      case budget::verdict::hand_back: done.flush(); break;
      case budget::verdict::pass_on:
        while (request* const more = done.take_entered()) {
          static_cast<several_request&>(*more).go_on_elsewhere();
        }
        break;
    }
  }
  done.flush();
}

void enter_next_sections(batch& done) noexcept { several_request::go_on_with_all(done); }

}  // namespace turnstile::detail
