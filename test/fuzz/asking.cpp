// asking.cpp - which section may be asked for, what the model says to that, and whether the library
// says the same.

#include "fuzz/interpreter.hpp"

#include <algorithm>

namespace fuzz {

bool interpreter::may_wait_for(actor a, std::size_t section) const {
  return static_cast<int>(section) > std::max(a.floor, a.holds->highest());
}

// The one the program says, if it may be waited for or is refused; else a higher one, if there is
// one.
std::optional<std::size_t> interpreter::choose(actor a, const instruction& i) const {
  const std::size_t count = world_.sites.size();
  const std::size_t wanted = i.section % count;
  if (a.holds->has(wanted) || may_wait_for(a, wanted)) return wanted;
  const auto lowest = static_cast<std::size_t>(1 + std::max(a.floor, a.holds->highest()));
  if (lowest >= count) return std::nullopt;
  return lowest + i.section % (count - lowest);
}

bool interpreter::is_bound(std::size_t section) const {
  return world_.sites[section]->bound() != place::nowhere;
}

bool interpreter::needs_thread(std::size_t section) const {
  return now() == place::nowhere && !is_bound(section);
}

bool interpreter::is_elsewhere(std::size_t section) const {
  const place bound = world_.sites[section]->bound();
  return bound != place::nowhere && bound != now();
}

place interpreter::starts_at(std::size_t section, bool idle) const {
  const place bound = world_.sites[section]->bound();
  if (bound != place::nowhere) return bound;
  return idle ? now() : place::nowhere;
}

asked& interpreter::ask(actor a, const instruction& i, std::size_t section, request::kind what) {
  asked& q = asked_.emplace_back();
  q.how = &i;
  q.section = section;
  q.floor = a.floor;
  q.home = now();
  look_at(section);
  const bool idle = model_.idle(section);
  // In these cases nobody can come behind it until it has run, so nobody is handed on to.
  if (i.what != op::execute_waiting || what == request::kind::guard) say_how_to_withdraw(q, i);
  const bool alone = what == request::kind::body &&
                     (idle ? i.what != op::execute_waiting : model_.length(section) == 1);
  if (i.resumes_elsewhere() || (needs_thread(section) && !alone)) {
    q.resume_on = executor_of(i);
  }
  q.said = model_.ask(section, a.holds, is_stopped(q));
  if (q.said == verdict::accepted) {
    q.as = &model_.accept(section, what);
    q.as->has_home = q.home != place::nowhere || q.resume_on != place::nowhere ||
                     (what == request::kind::body && is_bound(section));
    // Where others may come between its end and its awaiter, nobody says who is first.
    if (depth() == 0 && gap(q) == 0) {
      q.as->goes_on = q.resume_on == place::nowhere ? q.home : q.resume_on;
    }
    if (what == request::kind::body) {
      q.inner = &model_.new_body_chain(a.holds, section);
      q.as->starts_at = starts_at(section, idle && !q.level);
      const bool here = !is_elsewhere(section);
      if (idle && here && gap(q) == 0 && !q.level) model_.runs_at_once(*q.as);
      note_how_to_withdraw(q, !idle || !here);
    } else {
      note_how_to_withdraw(q, !idle);
    }
  }
  q.events = model_.events();
  return q;
}

// By submit or post: with no chain.
asked& interpreter::ask_without_waiting(const instruction& i, std::size_t section) {
  asked& q = asked_.emplace_back();
  q.how = &i;
  q.section = section;
  look_at(section);
  const bool idle = model_.idle(section);
  say_how_to_withdraw(q, i);
  if (!is_stopped(q)) never_withdraw(q);  // what is withdrawn here ends on the shared pool
  q.level.reset();                        // there is no such submit
  q.said = model_.ask(section, nullptr, is_stopped(q));
  if (q.said == verdict::accepted) {
    q.as = &model_.accept(section, request::kind::body);
    q.as->has_home = is_bound(section);
    q.as->starts_at = starts_at(section, idle);
    note_how_to_withdraw(q, true);
    q.inner = &model_.new_body_chain(nullptr, section);
  }
  return q;
}

turnstile::execute_options interpreter::options(const asked& q) {
  turnstile::execute_options o{
      .name = "fuzz", .deadline = q.deadline, .resume_on = world_.on.at(q.resume_on)};
  if (q.stopped_by) o.stop = q.token;
  return o;
}

// A token, a deadline, both, or an execute_when with a token.
void interpreter::say_how_to_withdraw(asked& q, const instruction& i) {
  if (!i.may_go() || now() == place::nowhere || world_.eager()) return;
  const unsigned how = i.arg / 4u % 4u;
  if (how != 1) {
    const token_slot& t = world_.tokens[i.arg % 4u];
    q.stopped_by = t.number;
    q.token = t.source.get_token();
  }
  if (how == 1 || how == 2) q.deadline = world_.clock.now() + std::chrono::milliseconds(i.arg % 4u);
  if (how == 3 && i.what == op::execute) q.level = model_.executions(q.section) + i.arg % 4u;
}

void interpreter::never_withdraw(asked& q) {
  q.stopped_by.reset();
  q.deadline = turnstile::never;
}

void interpreter::note_how_to_withdraw(asked& q, bool has_to_wait) {
  q.as->token = q.stopped_by;
  if (q.deadline != turnstile::never) q.as->deadline = q.deadline;
  q.as->can_go = has_to_wait && (q.stopped_by || q.deadline != turnstile::never);
  q.as->level = q.level;
}

bool interpreter::is_stopped(const asked& q) const {
  return (q.stopped_by && q.token.stop_requested()) || q.deadline <= world_.clock.now();
}

reason interpreter::why_stopped(const asked& q) {
  return q.stopped_by && q.token.stop_requested() ? reason::cancelled : reason::expired;
}

reason interpreter::why_refused(const asked& q) {
  if (q.said == verdict::accepted) return reason::none;
  return q.said == verdict::closed ? reason::closed : why_stopped(q);
}

template <class F>
bool interpreter::may_withdraw_here(F goes) const {
  if (now() == place::nowhere || depth() != 0 || world_.eager()) return false;
  for (std::size_t s = 0; s != world_.sites.size(); ++s) {
    if (model_.leaves_to_nobody(s, goes)) return false;
  }
  return true;
}

void interpreter::stop_token(std::size_t slot, bool renew) {
  token_slot& t = world_.tokens[slot];
  const auto goes = [&t](const request& r) { return r.token == t.number; };
  if (!may_withdraw_here(goes)) return;
  look();
  model_.withdraw(reason::cancelled, goes);
  t.source.request_stop();
  settle();
  if (!renew) return;
  t.number += world_.tokens.size();
  t.source = std::stop_source();
}

void interpreter::advance(std::chrono::nanoseconds by) {
  const auto then = world_.clock.now() + by;
  const auto goes = [then](const request& r) { return r.deadline && *r.deadline <= then; };
  if (!may_withdraw_here(goes)) return;
  look();
  model_.withdraw(reason::expired, goes);
  world_.clock.advance(by);
  settle();
}

// All that was to go has gone at once, and who waits for it goes on later.
void interpreter::settle() {
  for (std::size_t s = 0; s != world_.sites.size(); ++s) {
    model_.settle(s, world_.sites[s]->statistics().withdrawn);
    look_at(s);
  }
}

bool interpreter::may_run(asked& q) {
  expect(!is_elsewhere(q.section), "a predicate was asked on the wrong executor");
  return model_.asks(*q.as, world_.sites[q.section]->statistics());
}

// Only the default ring gives places in line before requests are published.
unsigned interpreter::gap(const asked& q) const {
#if defined(TURNSTILE_RING_INBOX) || defined(TURNSTILE_RING_CYCLE)
  static_cast<void>(q);
  return 0;
#else
  return turns_between(*q.how);
#endif
}

unsigned interpreter::turns_between(const instruction& i) const {
  return now() == place::nowhere ? 0 : i.gap();
}

interpreter::tried interpreter::predict_try(std::size_t section) {
  if (is_elsewhere(section) && !model_.closed(section)) return tried::empty;
  look_at(section);
  if (model_.closed(section)) {
    static_cast<void>(model_.ask(section, nullptr));  // which counts the refusal
    return tried::closed;
  }
  return model_.idle(section) ? tried::runs : tried::empty;
}

void interpreter::check_refused(actor a, const asked& q, const std::exception_ptr& error) {
  expect(error != nullptr, "a request was accepted that had to be refused");
  expect(q.events == model_.events(), "a refusal came late");
  check_place(q.home);
  try {
    std::rethrow_exception(error);
  } catch (const turnstile::reentry_error& e) {
    expect(q.said == verdict::reentry, "refused as re-entry");
    check_path(a, q.section, e);
  } catch (const turnstile::section_closed&) {
    expect(q.said == verdict::closed, "refused as closed");
  } catch (...) {
    const bool stopped = reason_of(error) == why_stopped(q);
    expect(stopped && q.said == verdict::withdrawn, "refused with an error of another kind");
  }
}

// It was accepted and does not run.
bool interpreter::went(asked& q, const std::exception_ptr& error) {
  if (q.said != verdict::accepted) return false;
  look_at(q.section);
  model_.deliver(*q.as, {error, 0}, reason_of(error));
  check_place(q.resume_on == place::nowhere ? q.home : q.resume_on);
  return true;
}

void interpreter::check_path(actor a, std::size_t section, const turnstile::deadlock_error& e) {
  const std::vector<std::size_t> expected = a.holds->path_to(section);
  expect(e.path().size() == expected.size(), "a path of another length");
  for (std::size_t i = 0; i != expected.size(); ++i) {
    expect(e.path()[i].section == world_.sites[expected[i]]->label(),
           "an error names another section");
  }
}

// Who was nowhere goes on wherever it was served.
void interpreter::check_place(place expected) const {
  expect(expected == place::nowhere || expected == now(), "resumed on the wrong executor");
}

}  // namespace fuzz
