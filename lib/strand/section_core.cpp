// section_core.cpp - serving a section's requests. The protocol is in the header.

#include "executor/pace.hpp"
#include "registry/times.hpp"
#include "strand/batch.hpp"
#include "strand/budget.hpp"
#include "strand/gate.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/section_options.hpp>
#include <turnstile/thread_pool.hpp>

#include <bit>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

namespace turnstile::detail {

namespace {

std::size_t checked_capacity(std::size_t capacity) {
  if (!std::has_single_bit(capacity)) {
    throw std::invalid_argument("turnstile: section_options::ring_capacity is " +
                                std::to_string(capacity) + ", which is no power of two");
  }
  return capacity;
}

constinit thread_local pace this_pace;

// What `word` points to, made by whoever needs it first.
template <class T>
T& made(atomic<T*>& word) {
  T* known = word.load(acquire);  // X1
  if (known != nullptr) return *known;
  auto fresh = std::make_unique<T>();
  if (!word.compare_exchange_strong(known, fresh.get(), release, acquire)) return *known;  // X1
  return *fresh.release();
}

section_core::published said(after_publish what) noexcept {
  return what == after_publish::closed ? section_core::published::closed
                                       : section_core::published::waiting;
}

stand_in* const closed_list = reinterpret_cast<stand_in*>(1);

// The last place in line.
struct closing_request : request {
  closing_request() noexcept {
    start = [](request&) noexcept { return outcome::closed; };
    back_to = nullptr;
    may_wait = true;
    accepted_at = 0;
    home_ = {};
  }
};

}  // namespace

section_core::section_core(const section_options& options, std::string_view container)
    : job(&run_posted),
      ring_(checked_capacity(options.ring_capacity), storage_),
      special_(traits_of(options)),
      mine_(options.ring_capacity, storage_),
      given_(keep(options, container)) {
  try {
    if (options.max_waiters != 0) {
      stand_ins().limit = new gate(options.max_waiters, options.on_full == when_full::wait_outside);
    }
    id_ = enlist(*this);
  } catch (...) {
    delete given_.load(relaxed);
    throw;
  }
}

std::uint8_t section_core::traits_of(const section_options& options) noexcept {
  return static_cast<std::uint8_t>((options.executor ? is_bound : 0) |
                                   (options.max_waiters != 0 ? is_limited : 0));
}

section_core::~section_core() {
  if (closers_.load(relaxed) != closed_list && (ring_.pending() != 0 || waits_aside())) {
    contract_break(label(), "destroyed while a body runs, a guard is owned or a request waits", {});
  }
  if (has_aside_) forget_aside();
  if (limited()) forget_outside();
  delist(*this, id_);
  // Relaxed: everything that was asked of the section comes before its end.
  delete given_.load(relaxed);
}

section_core::extras* section_core::keep(const section_options& options,
                                         std::string_view container) {
  if (options.name.empty() && !options.executor) return nullptr;
  return new extras{std::string(options.name), options.executor, std::string(container)};
}

section_core::extras::~extras() {
  if (section_claims* const all = claims.load(relaxed)) end_claims(*all);
  delete measured.load(relaxed);
  delete static_cast<closing_request*>(closing.load(relaxed));
  if (stand_in_counts* const c = stand_ins.load(relaxed)) c->drop();
}

void section_core::set_claims(section_claims& all) const {
  made(given_).claims.store(&all, release);  // X1
}

times* section_core::measured_here() const noexcept {
  const extras* const e = given();
  return e == nullptr ? nullptr : e->measured.load(acquire);  // X1
}

const times* section_core::measured() const noexcept { return measured_here(); }

void section_core::set(trait what, bool on) noexcept {
  if (on) {
    special_.fetch_or(what, relaxed);
  } else {
    special_.fetch_and(static_cast<std::uint8_t>(~what), relaxed);
  }
}

void section_core::measure(bool on) {
  if (on) made(made(given_).measured).switch_on();
  set(is_timed, on);
}

std::uint64_t section_core::accept_watched(const site& at, const resource_list& uses) noexcept {
  if (recorded()) record_execution(*this, at, uses);
  return timed() ? times::now() : 0;
}

void section_core::begin_tried(const site& at) noexcept {
  if (const std::uint64_t now = accept_watched(at, {}); now != 0) start_time(now);
}

void section_core::start_time(std::uint64_t accepted_at) noexcept {
  if (times* const t = measured_here()) t->begin(accepted_at, times::now());
}

void section_core::end_time() noexcept {
  if (times* const t = measured_here()) t->end(times::now());
}

std::string label_of(std::string_view name, std::uint32_t id) {
  return name.empty() ? "section #" + std::to_string(id) : std::string(name);
}

section_statistics section_core::statistics() const noexcept {
  const bool closed = closers_.load(relaxed) == closed_list;
  const std::size_t not_waiting = section_ring::ended(mine_) + 1;
  const std::size_t pending = closed ? 0 : ring_.pending();
  const std::size_t most = ring_.most_pending();
  section_statistics s;
  s.executions = executions_.load(relaxed);
  s.refused = refused_.load(relaxed);
  s.held = pending != 0;
  s.waiters = pending <= not_waiting ? 0 : pending - not_waiting;
  if (const stand_in_counts* const c = known_stand_ins()) {
    const std::size_t left = c->left_in_line.load(relaxed);
    s.waiters = (s.waiters <= left ? 0 : s.waiters - left) + c->aside.load(relaxed);
    s.withdrawn = c->withdrawn.load(relaxed);
    s.refused += c->closed.load(relaxed);
  }
  s.most_waiters = most == 0 ? 0 : most - 1;
  return s;
}

// Pinned if it is; else done with.
bool section_core::is_there(stand_in& s) noexcept {
  if (s.pin()) {
    s.stands = stand_in::position::neither;
    return true;
  }
  if (s.is_somebodys()) known_stand_ins()->left_in_line.fetch_sub(1, relaxed);
  s.pass_over();
  return false;
}

// What was withdrawn is passed over at once: its awaiter keeps the section alive no more.
request* section_core::next_awaited() noexcept {
  request* r = ring_.next(mine_);
  while (r != nullptr && stand_in::is_one(*r)) [[unlikely]] {
      if (is_there(stand_in::of(*r))) break;
      finish_place();
      r = ring_.next(mine_);
    }
  return r;
}

// Before the word is told, so whoever is let in finds the section in use.
void section_core::finish_place() noexcept {
  if (limited()) [[unlikely]] {
    limit()->leave();
    stand_in::let_in(*limit());
  }
  section_ring::finish(mine_);
}

gate* section_core::limit() const noexcept { return known_stand_ins()->limit; }

section_core::admission section_core::admit() noexcept {
  if (!limited() || limit()->enter()) return admission::in;
  if (closers_.load(relaxed) != nullptr) return admission::closed;
  return limit()->may_wait() ? admission::outside : admission::full;
}

bool section_core::admit_if_empty() noexcept { return !limited() || limit()->enter_if_empty(); }

std::exception_ptr section_core::refusal(admission why) noexcept {
  count_refusal();
  try {
    if (why == admission::full) throw section_full(label(), limit()->most());
    throw section_closed(label());
  } catch (...) {
    return std::current_exception();
  }
}

bool section_core::put_in_line(stand_in& s, arrival arrived, place line) noexcept {
  if (arrived == arrival::outside) {
    if (!limit()->enter_or_wait(s)) return !s.unpin();
    arrived = arrive(line);
  }
  switch (arrived) {
    case arrival::owner: post_first(line, s); break;
    case arrival::queued:
      if (publish_only(s, line) != published::closed) break;
      [[fallthrough]];
    default: s.close();
  }
  return !s.unpin();
}

void section_core::let_in(stand_in& s) noexcept {
  place line;
  const arrival arrived = arrive(line);
  if (!put_in_line(s, arrived, line)) batch::post_back(s.behind());
}

// The place of what has ended is still ours: what waits apart and may run now runs in it.
request* section_core::next_after_body(batch& done) noexcept {
  if (has_aside_) [[unlikely]] {
    if (stand_in* const s = wake_aside(done)) return s;
  }
  finish_place();
  return next_awaited();
}

// What was set aside by now need not be looked at when one more is.
request* section_core::next_after(outcome what, batch& done) noexcept {
  if (what != outcome::set_aside) return next_after_body(done);
  finish_place();
  return next_awaited();
}

// The loop that everything comes down to: one request after the other, until the section is left,
// passed on, or owned by a body or a guard.
bool section_core::serve(request* r, request* own, batch& done, int most_bodies) noexcept {
  bool own_served = false;
  budget left(most_bodies);
  done.keep_here(this_pace.look(here().bodies, left.begun()));
  while (r != nullptr) {
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
      case outcome::suspended: return own_served;
      case outcome::granted:
        if (ends == own) return true;
        done.add(*ends);
        return own_served;
      case outcome::closed: finish_closing(done); return own_served;
      case outcome::entered: done.add_entered(*ends); return own_served;
      case outcome::finished:
      case outcome::no_body:
        if (ends == own) {
          own_served = true;
        } else {
          done.add(*ends);
        }
        break;
      case outcome::set_aside: done.add_set_aside(*youngest_aside()); break;
      case outcome::withdrawn: done.add_pinned(stand_in::of(*r)); break;
    }
    if (timed) [[unlikely]]
      end_time();
    if (what == outcome::finished) count_execution();
    r = next_after(what, done);
    if (r == nullptr) break;
    const budget::verdict go = left.after_body();
    if (go == budget::verdict::go_on) continue;
    ring_.account(mine_);
    if (go == budget::verdict::pass_on) {
      pass_to_executor(*r,
                       done);  // before what is handed back here: others may take that and overlap
      break;
    }
    done.flush();
  }
  return own_served;
}

// All that came before has ended when close is done, and what this thread has to hand back comes
// first; another thread that passed the section on may still be handing back its own. Coroutines that
// would go on within this call do so after it, for they may wait for the end.
void section_core::finish_closing(batch& done) noexcept {
  std::optional<trampoline> after;
  if (here().bounce == nullptr) after.emplace();
  if (has_aside_) close_aside(done);
  if (limited()) close_gate(done);
  done.deliver();
  finish_close();
}

// At the section's end: they are all withdrawn.
void section_core::forget_outside() noexcept {
  for (stand_in* s = limit()->close(); s != nullptr;) std::exchange(s, s->younger)->pass_over();
}

// Those outside were not accepted.
void section_core::close_gate(batch& done) noexcept {
  for (stand_in* s = limit()->close(); s != nullptr;) {
    stand_in* const younger = s->younger;
    if (s->pin()) {
      s->close();
      done.add_pinned(*s);
    } else {
      s->pass_over();
    }
    s = younger;
  }
}

bool section_core::serve(request* r, request* own, int most_bodies) noexcept {
  batch done;
  const bool own_served = serve(r, own, done, most_bodies);
  done.deliver();
  return own_served;
}

// The section is left, or what comes next is served here or on the executor.
void section_core::serve_next() noexcept {
  if (request* const r = next_awaited()) serve(r, nullptr, budget::callers);
}

bool section_core::serve_first(place p, request& r, request* own) noexcept {
  section_ring::begin(p, mine_);
  return serve(&r, own, budget::callers);
}

void section_core::post_first(place p, request& r) noexcept {
  section_ring::begin(p, mine_);
  // Who made it has it pinned, so it is.
  if (stand_in::is_one(r) && stand_in::of(r).pin()) {
    stand_in::of(r).stands = stand_in::position::neither;
  }
  batch done;
  pass_to_executor(r, done);
  done.deliver();
}

// A guard's or a tried execution's end, or the short way's, while some wait apart.
void section_core::leave_slowly(place p) noexcept {
  section_ring::begin(p, mine_);
  batch done;
  go_on(next_after_body(done), done);
}

section_core::published section_core::publish(request& r, place p, request* own) noexcept {
  const after_publish what = ring_.publish(r, p, mine_);
  if (what != after_publish::take_over) return said(what);
  batch done;
  const published mine = take_over(own, done);
  done.deliver();
  return mine;
}

section_core::published section_core::publish(request& r, place p, batch& done) noexcept {
  const after_publish what = ring_.publish(r, p, mine_);
  return what == after_publish::take_over ? take_over(nullptr, done) : said(what);
}

section_core::published section_core::take_over(request* own, batch& done) noexcept {
  request* const next = next_awaited();
  if (next == nullptr) return published::waiting;  // the gap is still there
  if (bound_elsewhere()) {
    pass_to_executor(*next, done);
    return published::waiting;
  }
  return serve(next, own, done, budget::callers) ? published::own_served : published::waiting;
}

section_core::published section_core::publish_only(request& r, place p) noexcept {
  const after_publish what = ring_.publish(r, p, mine_);
  if (what == after_publish::closed) return published::closed;
  if (what == after_publish::take_over) {
    if (request* const next = next_awaited()) {
      batch done;
      pass_to_executor(*next, done);
      done.deliver();
    }
  }
  return published::waiting;
}

void section_core::give_up_room() noexcept {
  if (!limited()) return;
  limit()->leave();
  stand_in::let_in(*limit());
}

// Without memory for it this ends the program: the line would stop here for ever.
void section_core::give_up(place p) noexcept {
  if constexpr (section_ring::arrival_is_place) {
    if (publish_only(*new stand_in, p) == published::closed) std::abort();
  }
  give_up_room();
}

void section_core::prepare_closing() const {
  extras& e = made(given_);
  request* known = e.closing.load(acquire);  // X1
  if (known != nullptr) return;
  auto fresh = std::make_unique<closing_request>();
  if (e.closing.compare_exchange_strong(known, fresh.get(), release, acquire)) fresh.release();  // X1
}

void section_core::serve_closing(place p) noexcept {
  static_cast<void>(serve_first(p, *given()->closing.load(acquire), nullptr));  // X1
}

void section_core::publish_closing(place p) noexcept {
  request& r = *given()->closing.load(acquire);  // X1
  if (ring_.publish_last(r, p, mine_) != after_publish::take_over) return;
  if (request* const next = next_awaited()) {
    batch done;
    go_on(next, done);
  }
}

void section_core::body_finished(request& r) noexcept {
  batch done;
  if (r.accepted_at != 0) [[unlikely]]
    end_time();
  count_execution();
  done.add(r);
  go_on(next_after_body(done), done);
}

void section_core::release_hold() noexcept {
  batch done;
  go_on(end_hold(true, done), done);
}

request* section_core::end_hold(bool executed, batch& done) noexcept {
  if (timed()) [[unlikely]]
    end_time();
  if (executed) {
    count_execution();
    return next_after_body(done);
  }
  finish_place();
  return next_awaited();
}

// Here if bodies may run here.
void section_core::serve_on(request& r, batch& done) noexcept {
  if (bound_elsewhere()) {
    done.flush();
    pass_to_executor(r, done);
  } else {
    serve(&r, nullptr, done, budget::callers);
  }
}

// `r` may be null.
void section_core::go_on(request* r, batch& done) noexcept {
  if (r != nullptr) serve_on(*r, done);
  done.deliver();
}

// The caller owns the section and gives it away: it is not touched afterwards.
void section_core::pass_to_executor(request& r, batch& done) noexcept {
  request* next = &r;
  while (next != nullptr) {
    executor_ref to = bound() ? bound_to() : here().runs_on;
    if (!to) to = job_access::home(*next);
    if (!to) to = thread_pool::shared();
    if (!stand_in::is_one(*next)) {
      ring_.put_back(*next, mine_);
      return to.post(*this);
    }
    stand_in& s = stand_in::of(*next);
    const bool awake = s.is_awake;
    if (awake ? pass_awake(s, to) : s.post(to)) return;
    s.pass_over();
    done.add_pinned(s);
    // No body has run: who waits apart is looked at again only if this one was the first that may run.
    // So whoever withdraws asks no predicate.
    if (awake) {
      next = next_after_body(done);
    } else {
      finish_place();
      next = next_awaited();
    }
  }
}

// It may run now, which nobody shall have to find out again: so it is not withdrawn any more.
bool section_core::pass_awake(stand_in& s, executor_ref to) noexcept {
  request& who = s.behind();
  if (!s.take()) return false;
  ring_.put_back(who, mine_);
  to.post(*this);
  return true;
}

void section_core::serve_posted(stand_in& s) noexcept { serve(&s, nullptr, budget::jobs); }

void section_core::go_past_withdrawn() noexcept {
  batch done;
  done.keep_off();
  finish_place();
  if (request* const next = next_awaited()) pass_to_executor(*next, done);
  done.deliver();
}

stand_in_counts& section_core::stand_ins() const { return made(made(given_).stand_ins); }

stand_in_counts* section_core::known_stand_ins() const noexcept {
  const extras* const e = given();
  return e == nullptr ? nullptr : e->stand_ins.load(acquire);  // X1
}

void section_core::count_withdrawal() const { stand_ins().withdrawn.fetch_add(1, relaxed); }

void section_core::run_posted(job& self) noexcept {
  section_core& s = static_cast<section_core&>(self);
  s.serve(s.next_awaited(), nullptr, budget::jobs);
}

bool section_core::add_closer(stand_in& s) noexcept {
  stand_in* seen = closers_.load(acquire);
  do {
    if (seen == closed_list) return false;
    s.younger = seen;
  } while (!closers_.compare_exchange_weak(seen, &s, release, acquire));
  return true;
}

// For the graph they are all over before one of them goes on. The section may go with the first.
void section_core::finish_close() noexcept {
  stand_in* const all = closers_.exchange(closed_list, acq_rel);
  stand_in* still_there = nullptr;
  for (stand_in* s = all; s != nullptr;) {
    stand_in* const next = s->younger;
    if (s->pin()) {
      s->tell_over();
      s->younger = still_there;
      still_there = s;
    } else {
      s->pass_over();
    }
    s = next;
  }
  while (still_there != nullptr) {
    stand_in& s = *std::exchange(still_there, still_there->younger);  // s may be gone after this
    request& who = s.behind();
    if (s.take()) {
      resume_at_home(who);
      continue;
    }
    s.pass_over();
    if (s.unpin()) batch::post_back(who);
  }
}

}  // namespace turnstile::detail
