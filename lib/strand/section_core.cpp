// section_core.cpp - serving a section's requests. The protocol is in the header.

#include "executor/hand_back.hpp"
#include "executor/or_shared.hpp"
#include "executor/pace.hpp"
#include "strand/batch.hpp"
#include "strand/budget.hpp"
#include "strand/extras.hpp"
#include "strand/gate.hpp"
#include "strand/submissions.hpp"

#include <turnstile/detail/lock_request.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/submission.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <optional>

namespace turnstile::detail {

constinit thread_local pace this_pace;

namespace {

executor_ref home_of(const request& who) noexcept {
  const submission* const s = submission::of(who);
  return s == nullptr ? job_access::home(who) : s->home();
}

request& behind(request& r) noexcept { return stand_in::is_one(r) ? stand_in::of(r).behind() : r; }

// A guard, and the end of the line.
bool runs_no_body(const request& who) noexcept {
  return lock_request::is_one(who) || closing_request::is_one(who);
}

bool is_of_who_blocks_here(request& r) noexcept {
  const blocked_thread* const t = suspended<request>::thread_behind(behind(r));
  return t != nullptr && t == here().in_line;
}

bool tries_to_be_brisk(steady_clock::time_point now) noexcept {
  if (!this_pace.tries(now)) {
    if (!this_pace.may_try(now) || !may_try_here(now, now + pace::trial)) return false;
    this_pace.try_from(now);
  }
  here().tries_until_ns = this_pace.trial_ends().time_since_epoch().count();
  return true;
}

// What a brisk thread serves, or one that tries to be, stays with it (executor/pace.hpp).
void begin_drain(budget& left, batch& done) noexcept {
  const bool brisk = this_pace.look(asked_here(), left.begun());
  const bool keeps = brisk || tries_to_be_brisk(left.begun());
  if (brisk) left.be_brisk();
  if (keeps) left.keep_here();
  done.keep_here(keeps);
}

section_core::published said(after_publish what) noexcept {
  return what == after_publish::closed ? section_core::published::closed
                                       : section_core::published::waiting;
}

}  // namespace

// Who is off is only told of something, on a thread that may be anybody's. A thread that is blocked
// in line has nothing else to do, and all threads of an executor may be blocked there. A guard is
// no body, and so is given anywhere, also where the section is bound; but not by an executor that
// has no part in it, which nobody may run again: rather where its coroutine goes on, without which
// nobody else does.
executor_ref section_core::who_serves(request& next, const batch& done) const noexcept {
  request& who = behind(next);
  if (bound() && !runs_no_body(who)) return bound_to();
  if (blocked_thread* const t = suspended<request>::thread_behind(who)) return *t;
  if (done.passes_to_shared()) return executor_ref(thread_pool::shared());
  return here_or_home(home_of(who), !done.is_off() && !bound_elsewhere());
}

// It is bound, and this is a body.
bool section_core::is_elsewhere_for(request& r) const noexcept {
  return bound_elsewhere() && !runs_no_body(behind(r));
}

// On top of somebody who holds a section, to the thread that is blocked for it. And on top of a
// function that changes a variable, for a body may ask for that one, and so may a predicate. To the
// section's executor: a guard is given anywhere, and where that is refused, others follow.
bool section_core::belongs_elsewhere(request& r, const batch& done) const noexcept {
  if (here().changes_a_variable()) [[unlikely]]
    return true;
  if (bound() && !done.is_at_home_of(*this) && is_elsewhere_for(r)) return true;
  return done.rests_on_held() && suspended<request>::thread_behind(behind(r)) != nullptr;
}

// Pinned if it is; else done with.
bool section_core::is_there(stand_in& s) noexcept {
  if (s.pin()) {
    s.stands = stand_in::position::neither;
    return true;
  }
  known_stand_ins()->left_in_line.fetch_sub(1, relaxed);
  s.pass_over();
  return false;
}

// What was withdrawn is passed over at once: its awaiter keeps the section alive no more. Whoever
// withdrew it has made room for others.
request* section_core::next_awaited() noexcept {
  request* r = ring_.next(mine_);
  while (r != nullptr && stand_in::is_one(*r)) {
    if (is_there(stand_in::of(*r))) break;
    if (has_tail_) [[unlikely]] {
      // What is held for the tail then is this place, and whoever finishes that gives up its room.
      if (limited()) limit()->come_back();
      if (!may_finish_place(r)) return r;
      give_up_room();
    }
    section_ring::finish(mine_);
    r = ring_.next(mine_);
  }
  return r;
}

// Before the word is told, so whoever is let in finds the section in use.
void section_core::finish_place() noexcept {
  if (limited()) [[unlikely]]
    give_up_room();
  section_ring::finish(mine_);
}

// Null: the section was left, or it is held.
request* section_core::finish_and_next() noexcept {
  request* instead = nullptr;
  if (has_tail_ && !may_finish_place(instead)) [[unlikely]]
    return instead;
  finish_place();
  return next_awaited();
}

// The place of what has ended is still ours: what waits apart and may run now runs in it.
request* section_core::next_after_body(batch& done) noexcept {
  if (has_aside_) [[unlikely]] {
    if (bound_elsewhere() || here().changes_a_variable() || done.keeps_off()) {
      if (ask_on_executor(done)) return nullptr;
    } else if (stand_in* const s = wake_aside(done)) {
      return s;
    }
  }
  return finish_and_next();
}

// What was set aside by now need not be looked at when one more is.
request* section_core::next_after(outcome what, batch& done) noexcept {
  return what == outcome::set_aside ? finish_and_next() : next_after_body(done);
}

void section_core::serve_off(request* r, request* own, batch& done, int most_bodies) noexcept {
  off_this_stack([&] { serve(r, own, done, most_bodies); });
}

TURNSTILE_INLINE void section_core::hand_back(request& r, const request* own,
                                              batch& done) noexcept {
  if (&r == own) {
    done.keep_own(r);
  } else {
    done.add(r);
  }
}

// Gives what comes next. Null: the section is left, or owned by a body or a guard.
TURNSTILE_INLINE request* section_core::serve_one(request* r, request*& own, batch& done) noexcept {
  if (has_tail_) [[unlikely]] {
    request* const first = unless_it_waits(r, own, done);
    if (first != r) return first;  // it may belong elsewhere
  }
  request* ends = r;  // who is handed back
  if (r->may_wait) [[unlikely]] {
    if (stand_in::is_one(*r)) ends = &stand_in::of(*r).behind();
    if (ends->may_wait) {
      // The body may go on elsewhere before start returns, so nothing may be owed by then.
      ring_.account(mine_);
      done.flush();
    }
  }
  const bool timed = ends->accepted_at != 0;
  if (timed) [[unlikely]]
    start_time(ends->accepted_at);
  const outcome what = r->start(*r);
  switch (what) {
    case outcome::suspended: return nullptr;
    case outcome::granted:
      if (timed) [[unlikely]]
        count_wait();
      hand_back(*ends, own, done);
      return nullptr;
    case outcome::closed: finish_closing(done); return nullptr;
    case outcome::entered: done.add_entered(*ends); return nullptr;
    case outcome::finished:
    case outcome::no_body:
      hand_back(*ends, own, done);
      if (ends == own) own = nullptr;  // a body that blocks may give it away, and it is gone then
      break;
    case outcome::set_aside:
      if (ends == own) own = nullptr;  // it may be gone before this call is over
      done.add_set_aside(*youngest_aside());
      break;
    case outcome::withdrawn: done.add_pinned(stand_in::of(*r)); break;
  }
  if (timed) [[unlikely]]
    end_or_forget_time(what == outcome::finished);
  if (what == outcome::finished) {
    count_execution();
    ++here().served;
  }
  r = next_after(what, done);
  if (r != nullptr && (what == outcome::set_aside || what == outcome::withdrawn)) [[unlikely]] {
    ring_.account(mine_);
    done.flush();  // who is pinned goes when it wants to, whatever comes next
  }
  return r;
}

// The loop that everything comes down to: one request after the other, until the section is left,
// passed on, or owned by a body or a guard. The caller's own one, which comes first, is not service
// to others: mostly nobody follows, and the clock is not read (bench/tried.md).
void section_core::serve(request* r, request* own, batch& done, int most_bodies) noexcept {
  if (r == nullptr) return;
  if (here().stack != nullptr) [[unlikely]]
    return serve_off(r, own, done, most_bodies);
  std::optional<budget> left;
  if (r != own) begin_drain(left.emplace(most_bodies), done);
  const batch::while_bodies_run may_block(done);
  while ((r = serve_one(r, own, done)) != nullptr) {
    if (belongs_elsewhere(*r, done)) [[unlikely]] {
      ring_.account(mine_);
      pass_to_executor(*r, done, queued::next);
      break;
    }
    if (!left) {
      begin_drain(left.emplace(most_bodies), done);
      continue;
    }
    const budget::verdict go = left->after_body();
    if (go == budget::verdict::go_on) continue;
    ring_.account(mine_);
    if (go == budget::verdict::pass_on) {
      pass_to_executor(*r,
                       done);  // before what is handed back here: others may take that and overlap
      break;
    }
    done.flush();
    note_work_here();
  }
}

// The section is left, or what comes next is served here or on the executor.
void section_core::serve_next() noexcept {
  request* const r = next_awaited();
  if (r == nullptr || hand_over(*r)) return;
  batch done(rests_on_held());
  serve_or_pass(r, done, budget::callers);
}

// To who waits for a guard, as serve does. That runs no body, so no time is kept, and is one to
// hand back; for who is refused it there are others, who are served elsewhere if it `keeps_off`.
// False: nothing was done.
bool section_core::hand_over(request& r, bool keeps_off) noexcept {
  if (!lock_request::is_one(r) || r.accepted_at != 0 || has_tail_) return false;
  if (!job_access::home(r) || here().stack != nullptr) return false;
  ring_.account(mine_);
  if (r.start(r) == outcome::granted) {
    here().count_once_more();
    batch::send_one(r, this_pace.look_seldom());  // this may be gone
  } else {
    batch done(rests_on_held());
    if (keeps_off) done.keep_off_to_shared();
    done.add(r);
    go_on(next_after_body(done), done);
  }
  return true;
}

bool section_core::serve_first(place p, request& r, request* own) noexcept {
  section_ring::begin(p, mine_);
  ++here().to_be_served;
  batch done(rests_on_held());
  serve(&r, own, done, budget::callers);
  done.deliver();
  return done.take_own();
}

void section_core::post_first(place p, request& r) noexcept {
  section_ring::begin(p, mine_);
  // Who made it has it pinned, so it is.
  if (stand_in::is_one(r) && stand_in::of(r).pin()) {
    stand_in::of(r).stands = stand_in::position::neither;
  }
  batch done;
  done.keep_off();
  pass_to_executor(r, done);
  done.deliver();
}

// A guard's or a tried execution's end, or the short way's, while some wait apart.
void section_core::leave_slowly(place p, bool on_held) noexcept {
  section_ring::begin(p, mine_);
  batch done(on_held);
  go_on(next_after_body(done), done);
}

void section_core::leave_to_others(place p) noexcept {
  count_execution();
  if (!has_aside_ && ring_.leave(p, mine_)) return;
  if (has_aside_) section_ring::begin(p, mine_);
  batch done;
  done.keep_off();
  if (has_aside_ && !here().runs_on) done.keep_off_to_shared();
  go_on(has_aside_ ? next_after_body(done) : next_awaited(), done);
}

section_core::published section_core::publish(request& r, place p, request* own) noexcept {
  const after_publish what = publish_in_ring(r, p);
  if (what != after_publish::take_over) return said(what);
  batch done(rests_on_held());
  take_over(r, own, done);
  done.deliver();
  return done.take_own() ? published::own_served : published::waiting;
}

section_core::published section_core::publish(request& r, place p, batch& done) noexcept {
  const after_publish what = publish_in_ring(r, p);
  if (what != after_publish::take_over) return said(what);
  take_over(r, nullptr, done);
  return published::waiting;
}

// `r` was published, and is the first in line, unless that was withdrawn meanwhile.
void section_core::take_over(const request& r, request* own, batch& done) noexcept {
  request* const next = next_awaited();
  if (next == nullptr) return;  // the gap is still there
  if (is_elsewhere_for(*next) || (next != &r && belongs_elsewhere(*next, done))) {
    pass_to_executor(*next, done);
  } else {
    serve(next, own, done, budget::callers);
  }
}

section_core::published section_core::publish_only(request& r, place p) noexcept {
  submissions* const known = known_submissions();
  const submissions_ref device_work =
      known == nullptr ? submissions_ref() : submissions_ref::more(*known);
  const after_publish what = publish_in_ring(r, p);
  if (what == after_publish::closed) return published::closed;
  if (what == after_publish::nothing && device_work && device_work->announce()) {
    go_on_with_device();
  }
  if (what == after_publish::take_over) send_next();
  return published::waiting;
}

// By the owner. No user's code runs within this call: if to the shared pool, not even where an
// executor runs jobs within post.
void section_core::send_next(bool to_shared) noexcept {
  request* const next = next_awaited();
  if (next == nullptr) return;
  batch done;
  to_shared ? done.keep_off_to_shared() : done.keep_off();
  pass_to_executor(*next, done, queued::next);
  done.deliver();
}

void section_core::body_finished(request& r) noexcept {
  batch done(here().below_holds);  // the chain is none, or may be gone
  if (r.accepted_at != 0) [[unlikely]]
    end_time();
  count_execution();
  done.add(r);
  go_on(next_after_body(done), done);
}

// Mostly nobody waits, and there is nothing to hand back.
void section_core::release_hold() noexcept {
  if (special_.load(relaxed) != 0 || has_aside_ || has_tail_) [[unlikely]]
    return release_special_hold();
  count_execution();
  section_ring::finish(mine_);
  if (!ring_.settle(mine_)) serve_next();
}

// What waits for a guard, as a thread does that is blocked for one, has it at once: all the threads
// that could serve it may be blocked so.
void section_core::release_to_others() noexcept {
  batch done;
  done.keep_off_to_shared();
  request* next = end_hold(true, done);
  if (next != nullptr && hand_over(*next, true)) next = nullptr;  // this may be gone
  if (next == nullptr) return done.deliver();
  go_on(next, done);
}

void section_core::release_special_hold() noexcept {
  batch done(rests_on_held());
  go_on(end_hold(true, done), done);
}

request* section_core::end_hold(bool executed, batch& done) noexcept {
  if (timed()) [[unlikely]]
    end_or_forget_time(executed);
  if (executed) {
    count_execution();
    return next_after_body(done);
  }
  return finish_and_next();
}

// Here if bodies may run here. What has ended does not wait for that.
void section_core::serve_on(request& r, batch& done) noexcept {
  ring_.account(mine_);
  done.flush();
  if (is_elsewhere_for(r)) {
    pass_to_executor(r, done);
  } else if (belongs_elsewhere(r, done)) {
    pass_to_executor(r, done, queued::next);
  } else {
    serve(&r, nullptr, done, budget::callers);
  }
}

// `r` may be null.
void section_core::go_on(request* r, batch& done) noexcept {
  if (r != nullptr && done.keeps_off()) {
    pass_to_executor(*r, done, queued::next);
  } else if (r != nullptr) {
    serve_on(*r, done);
  }
  done.deliver();
}

// Before that owns the section.
void section_core::note_sent(executor_ref to) noexcept {
  if (bound()) is_sent_home_ = to == bound_to();
}

// The caller owns the section and gives it away: it is not touched afterwards.
void section_core::pass_to_executor(request& r, batch& done, queued where) noexcept {
  request* next = &r;
  while (next != nullptr) {
    const executor_ref to = who_serves(*next, done);
    note_sent(to);
    if (!stand_in::is_one(*next)) {
      ring_.put_back(*next, mine_);
      return post(to, *this, where);
    }
    stand_in& s = stand_in::of(*next);
    const bool awake = s.is_awake;
    if (awake ? pass_awake(s, to, where) : s.post(to, where)) return;
    s.pass_over();
    done.add_pinned(s);
    // No body has run: who waits apart is looked at again only if this one was the first that may
    // run.
    // So whoever withdraws asks no predicate.
    if (awake) {
      next = next_after_body(done);
    } else {
      next = finish_and_next();
    }
  }
}

// It may run now, which nobody shall have to find out again: so it is not withdrawn any more.
bool section_core::pass_awake(stand_in& s, executor_ref to, queued where) noexcept {
  request& who = s.behind();
  if (!s.take()) return false;
  ring_.put_back(who, mine_);
  post(to, *this, where);
  return true;
}

void section_core::serve_posted(stand_in& s) noexcept {
  batch done(rests_on_held());
  if (is_sent_home_) done.begin_at_home_of(*this);
  if (!asks_there()) return serve_or_pass(&s, done, budget::jobs);
  request* const r = next_after_asking(s, done);
  if (r != nullptr) {
    ring_.account(mine_);
    done.flush();  // who was asked may go, whatever body follows
  }
  serve_or_pass(r, done, budget::jobs);
}

// A thread that is blocked in line was given the section with its own request; what comes after
// that, it does not serve on top of what it holds.
void section_core::serve_or_pass(request* r, batch& done, int most_bodies) noexcept {
  if (r != nullptr && belongs_elsewhere(*r, done) && !is_of_who_blocks_here(*r)) {
    pass_to_executor(*r, done, queued::next);
  } else {
    serve(r, nullptr, done, most_bodies);
  }
  done.deliver();
}

// Who withdraws may be anybody, on an executor that nobody runs again.
void section_core::go_past_withdrawn() noexcept {
  batch done;
  done.keep_off_executor();
  if (!asks_there() || !ask_on_executor_again(done)) {
    if (request* const next = finish_and_next()) pass_to_executor(*next, done);
  }
  done.deliver();
}

void section_core::run_posted(job& self) noexcept {
  section_core& s = static_cast<section_core&>(self);
  batch done(rests_on_held());
  if (s.is_sent_home_) done.begin_at_home_of(s);
  s.serve_or_pass(s.next_awaited(), done, budget::jobs);
}

}  // namespace turnstile::detail
