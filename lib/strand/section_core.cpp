// section_core.cpp - serving a section's requests. The protocol is in the header.

#include "executor/pace.hpp"
#include "registry/times.hpp"
#include "strand/batch.hpp"
#include "strand/budget.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/thread_pool.hpp>

#include <bit>
#include <optional>
#include <stdexcept>

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

section_core::closer* const closed_list = reinterpret_cast<section_core::closer*>(1);

// Stands in line for a request that was refused after it had arrived.
struct nobody : request {
  nobody() noexcept {
    start = &never;
    may_wait = false;
    back_to = nullptr;
  }
  static outcome never(request&) noexcept { return outcome::finished; }
};

bool is_nobody(const request& r) noexcept { return r.start == &nobody::never; }

}  // namespace

section_core::section_core(std::string_view name, executor_ref bound_to, std::size_t ring_capacity,
                           std::string_view container)
    : job(&run_posted),
      ring_(checked_capacity(ring_capacity), storage_),
      special_(static_cast<std::uint8_t>(bound_to ? is_bound : 0)),
      mine_(ring_capacity, storage_),
      given_(keep(name, bound_to, container)) {
  try {
    id_ = enlist(*this);
  } catch (...) {
    delete given_.load(relaxed);
    throw;
  }
}

section_core::~section_core() {
  if (closers_.load(relaxed) != closed_list && ring_.pending() != 0) {
    contract_break(label(), "destroyed while a body runs, a guard is owned or a request waits", {});
  }
  delist(*this, id_);
  // Relaxed: everything that was asked of the section comes before its end.
  delete given_.load(relaxed);
}

section_core::extras* section_core::keep(std::string_view name, executor_ref executor,
                                         std::string_view container) {
  if (name.empty() && !executor) return nullptr;
  return new extras{std::string(name), executor, std::string(container)};
}

section_core::extras::~extras() {
  if (section_claims* const all = claims.load(relaxed)) end_claims(*all);
  delete measured.load(relaxed);
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
  s.most_waiters = most == 0 ? 0 : most - 1;
  return s;
}

// Places that were given up are passed over at once: nobody's awaiter keeps the section alive for them.
request* section_core::next_awaited() noexcept {
  request* r = ring_.next(mine_);
  while (r != nullptr && is_nobody(*r)) [[unlikely]] {
    delete static_cast<nobody*>(r);
    section_ring::finish(mine_);
    r = ring_.next(mine_);
  }
  return r;
}

// The loop that everything comes down to: one request after the other, until the section is left,
// passed on, or owned by a body or a guard.
bool section_core::serve(request* r, request* own, batch& done, int most_bodies) noexcept {
  bool own_served = false;
  budget left(most_bodies);
  done.keep_here(this_pace.look(here().bodies, left.begun()));
  while (r != nullptr) {
    const bool timed = r->accepted_at != 0;
    if (timed) [[unlikely]]
      start_time(r->accepted_at);
    if (r->may_wait) {
      // The body may go on elsewhere before start returns, so nothing may be owed by then.
      ring_.account(mine_);
      done.flush();
    }
    switch (r->start(*r)) {
      case outcome::suspended: return own_served;
      case outcome::granted:
        if (r == own) return true;
        done.add(*r);
        return own_served;
      case outcome::closed: finish_closing(done); return own_served;
      case outcome::entered: done.add_entered(*r); return own_served;
      case outcome::finished: break;
    }
    if (timed) [[unlikely]]
      end_time();
    count_execution();
    section_ring::finish(mine_);
    if (r == own) {
      own_served = true;
    } else {
      done.add(*r);
    }
    r = next_awaited();
    if (r == nullptr) break;
    const budget::verdict go = left.after_body();
    if (go == budget::verdict::go_on) continue;
    ring_.account(mine_);
    if (go == budget::verdict::pass_on) {
      pass_to_executor(*r);  // before what is handed back here: others may take that and overlap
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
  done.deliver();
  finish_close();
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
  pass_to_executor(r);
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
    pass_to_executor(*next);
    return published::waiting;
  }
  return serve(next, own, done, budget::callers) ? published::own_served : published::waiting;
}

section_core::published section_core::publish_only(request& r, place p) noexcept {
  const after_publish what = ring_.publish(r, p, mine_);
  if (what == after_publish::closed) return published::closed;
  if (what == after_publish::take_over) {
    if (request* const next = next_awaited()) pass_to_executor(*next);
  }
  return published::waiting;
}

// Without memory for it this ends the program: the line would stop here for ever.
void section_core::give_up(place p) noexcept {
  if constexpr (section_ring::arrival_is_place) {
    if (publish_only(*new nobody, p) == published::closed) std::abort();
  }
}

void section_core::publish_closing(request& r, place p) noexcept {
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
  section_ring::finish(mine_);
  done.add(r);
  go_on(next_awaited(), done);
}

void section_core::release_hold() noexcept {
  batch done;
  go_on(end_hold(true), done);
}

request* section_core::end_hold(bool executed) noexcept {
  if (timed()) [[unlikely]]
    end_time();
  if (executed) count_execution();
  section_ring::finish(mine_);
  return next_awaited();
}

// Here if bodies may run here.
void section_core::serve_on(request& r, batch& done) noexcept {
  if (bound_elsewhere()) {
    done.flush();
    pass_to_executor(r);
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
void section_core::pass_to_executor(request& r) noexcept {
  executor_ref to = bound() ? bound_to() : here().runs_on;
  if (!to) to = job_access::home(r);
  if (!to) to = thread_pool::shared();
  ring_.put_back(r, mine_);
  to.post(*this);
}

void section_core::run_posted(job& self) noexcept {
  section_core& s = static_cast<section_core&>(self);
  s.serve(s.next_awaited(), nullptr, budget::jobs);
}

bool section_core::add_closer(closer& c) noexcept {
  closer* seen = closers_.load(acquire);
  do {
    if (seen == closed_list) return false;
    c.next = seen;
  } while (!closers_.compare_exchange_weak(seen, &c, release, acquire));
  return true;
}

void section_core::finish_close() noexcept {
  closer* c = closers_.exchange(closed_list, acq_rel);  // the section may go once a closer resumes
  for (closer* each = c; each != nullptr; each = each->next) each->over(*each);
  while (c != nullptr) {
    closer* const next = c->next;
    c->done(*c);  // c may be gone
    c = next;
  }
}

}  // namespace turnstile::detail
