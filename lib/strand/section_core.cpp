// section_core.cpp - serving a section's requests. The protocol is in the header.

#include "executor/pace.hpp"
#include "strand/batch.hpp"
#include "strand/budget.hpp"

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/thread_pool.hpp>

#include <bit>
#include <optional>
#include <stdexcept>

namespace turnstile::detail {

namespace {

std::uint32_t next_id() noexcept {
  static statistic<std::uint32_t> last{0};
  return last.fetch_add(1, relaxed) + 1;  // relaxed: only distinct
}

std::size_t checked_capacity(std::size_t capacity) {
  if (!std::has_single_bit(capacity)) {
    throw std::invalid_argument("turnstile: section_options::ring_capacity is " +
                                std::to_string(capacity) + ", which is no power of two");
  }
  return capacity;
}

constinit thread_local pace this_pace;

section_core::closer* const closed_list = reinterpret_cast<section_core::closer*>(1);

}  // namespace

std::unique_ptr<const section_core::options> section_core::keep(std::string_view name,
                                                                executor_ref executor) {
  if (name.empty() && !executor) return nullptr;
  return std::make_unique<const options>(options{std::string(name), executor});
}

section_core::section_core(std::string_view name, executor_ref bound_to, std::size_t ring_capacity)
    : job(&run_posted),
      ring_(checked_capacity(ring_capacity), storage_),
      bound_(static_cast<bool>(bound_to)),
      mine_(ring_capacity, storage_),
      id_(next_id()),
      given_(keep(name, bound_to)) {}

section_core::~section_core() {
  if (closers_.load(relaxed) == closed_list || ring_.pending() == 0) return;
  contract_break(label(), "destroyed while a body runs, a guard is owned or a request waits", {});
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

namespace {

// Stands in line for a request that was refused after it had arrived. Nobody waits for it.
struct nobody : request {
  nobody() noexcept {
    start = &never;
    may_wait = false;
    back_to = nullptr;
  }
  static bool is(const request& r) noexcept { return r.start == &never; }
  static outcome never(request&) noexcept { return outcome::finished; }
};

}  // namespace

// The next request that somebody waits for. What nobody waits for keeps no section alive, so it is
// passed over before anything that was served is handed back.
request* section_core::next_awaited() noexcept {
  request* r = ring_.next(mine_);
  while (r != nullptr && nobody::is(*r)) [[unlikely]] {
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
      case outcome::finished: break;
    }
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
  if (what == after_publish::closed) return published::closed;
  if (what == after_publish::nothing) return published::waiting;
  batch done;
  request* const next = next_awaited();
  if (next == nullptr) return published::waiting;  // the gap is still there
  if (bound_elsewhere()) {
    pass_to_executor(*next);
    return published::waiting;
  }
  const bool own_served = serve(next, own, done, budget::callers);
  done.deliver();
  return own_served ? published::own_served : published::waiting;
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
  count_execution();
  section_ring::finish(mine_);
  done.add(r);
  go_on(next_awaited(), done);
}

void section_core::release_hold() noexcept {
  batch done;
  count_execution();
  section_ring::finish(mine_);
  go_on(next_awaited(), done);
}

// Serves on from `r`, which may be null, here if bodies may run here.
void section_core::go_on(request* r, batch& done) noexcept {
  if (r != nullptr && bound_elsewhere()) {
    done.flush();
    pass_to_executor(*r);
  } else {
    serve(r, nullptr, done, budget::callers);
  }
  done.deliver();
}

// The caller owns the section and gives it away: it is not touched afterwards.
void section_core::pass_to_executor(request& r) noexcept {
  executor_ref to = bound_ ? given_->executor : here().runs_on;
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
