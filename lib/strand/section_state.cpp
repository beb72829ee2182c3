// section_state.cpp - a section's beginning and end, and what is said of it.

#include "registry/times.hpp"
#include "strand/extras.hpp"
#include "strand/gate.hpp"
#include "strand/submissions.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/section_options.hpp>

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace turnstile::detail {

namespace {

std::size_t checked_capacity(std::size_t capacity) {
  if (!std::has_single_bit(capacity)) {
    throw std::invalid_argument("turnstile: section_options::ring_capacity is " +
                                std::to_string(capacity) + ", which is no power of two");
  }
  return capacity;
}

}  // namespace

section_core::section_core()
    : job(&run_posted),
      ring_(section_options{}.ring_capacity),
      special_(0),
      given_(nullptr),
      mine_(section_options{}.ring_capacity),
      id_(enlist(*this)) {}

section_core::section_core(const section_options& options, std::string_view container)
    : job(&run_posted),
      ring_(checked_capacity(options.ring_capacity)),
      special_(traits_of(options)),
      given_(nullptr),
      mine_(options.ring_capacity) {
  given_.store(keep(options, container), relaxed);
  try {
    if (options.max_waiters != 0) {
      stand_ins().limit = new gate(options.max_waiters, options.on_full == when_full::wait_outside);
    }
    id_ = enlist(*this);
    if (limited()) all_that_refuse.count.fetch_add(1, relaxed);
  } catch (...) {
    delete given_.load(relaxed);
    throw;
  }
}

constinit refusing_sections all_that_refuse;

std::uint8_t section_core::traits_of(const section_options& options) noexcept {
  return static_cast<std::uint8_t>((options.executor ? is_bound : 0) |
                                   (options.max_waiters != 0 ? is_limited : 0));
}

section_core::~section_core() {
  end_kept();
  if (closers() != closed_list && (ring_.pending() != 0 || waits_aside())) {
    contract_break(
        label(),
        "destroyed while a body runs, a guard is owned, a request or its close waits, or a device "
        "works for it",
        {});
  }
  if (has_aside_) forget_aside();
  if (has_counted_frames_.load(relaxed)) wait_for_touches();
  if (submissions* const all = known_submissions()) all->section_ends();
  delist(*this, id_);
  if (limited()) all_that_refuse.count.fetch_sub(1, relaxed);
  if (is_lost()) all_that_refuse.count.fetch_sub(1, relaxed);
  // Relaxed: everything that was asked of the section comes before its end.
  delete given_.load(relaxed);
}

section_core::extras* section_core::keep(const section_options& options,
                                         std::string_view container) {
  const section_options plain;
  if (options.max_in_flight == 0) {
    throw std::invalid_argument(
        "turnstile: section_options::max_in_flight is 0, so no device "
        "execution could ever begin");
  }
  if (options.name.empty() && !options.executor && options.place == plain.place &&
      options.max_in_flight == plain.max_in_flight && options.hand_on == plain.hand_on) {
    return nullptr;
  }
  return new extras{std::string(options.name), options.executor,
                    std::string(container),    options.place,
                    options.max_in_flight,     options.hand_on};
}

// Relaxed where it is only compared: who goes through the list has it by an exchange.
stand_in* section_core::closers() const noexcept {
  const extras* const e = given();
  return e == nullptr ? nullptr : e->closers.load(relaxed);
}

section_core::extras::~extras() {
  if (section_claims* const all = claims.load(relaxed)) end_claims(*all);
  delete measured.load(relaxed);
  delete closing.load(relaxed);
  if (stand_in_counts* const c = stand_ins.load(relaxed)) c->drop();
  if (submissions* const s = device_work.load(relaxed)) s->drop();
}

void section_core::set_claims(section_claims& all) const {
  made(given_).claims.store(&all, release);  // X1
}

times* section_core::measured_here() const noexcept {
  const extras* const e = given();
  return e == nullptr ? nullptr : e->measured.load(acquire);  // X1
}

const times* section_core::measured() const noexcept { return measured_here(); }

void section_core::set(trait what, bool on, bool to_shared) noexcept {
  if (on) {
    special_.fetch_or(what, seq_cst);  // T4 of submissions.hpp, K4 of keeper.hpp
    if (ring_.is_kept()) take_away_kept(to_shared);
  } else {
    special_.fetch_and(static_cast<std::uint8_t>(~what), relaxed);
  }
}

void section_core::measure(bool on) {
  if (on && !timed()) made(made(given_).measured).switch_on();
  set(is_timed, on);
}

std::uint64_t section_core::accept_watched(const site& at, const resource_list& uses) noexcept {
  if (recorded()) record_execution(*this, at, uses);
  return timed() ? times::now() : 0;
}

void section_core::begin_tried(const site& at, const resource_list& uses) noexcept {
  if (const std::uint64_t now = accept_watched(at, uses); now != 0) start_time(now);
}

void section_core::start_time(std::uint64_t accepted_at) noexcept {
  if (times* const t = measured_here()) t->begin(accepted_at, times::now());
}

// Of a guard, which has the section now. The wait of a body is counted when that ends: it may be
// over elsewhere by now, or not begin, where it wants several sections.
void section_core::count_wait() noexcept {
  if (times* const t = measured_here()) t->count_wait();
}

void section_core::end_time() noexcept {
  if (times* const t = measured_here()) t->end(times::now());
}

// What had no body was no hold.
void section_core::end_or_forget_time(bool executed) noexcept {
  if (executed) return end_time();
  if (times* const t = measured_here()) t->forget();
}

std::string label_of(std::string_view name, std::uint32_t id) {
  return name.empty() ? "section #" + std::to_string(id) : std::string(name);
}

section_statistics section_core::statistics() const noexcept {
  const bool closed = closers() == closed_list;
  const std::size_t unused = is_kept_unused() ? 1 : 0;
  const std::size_t pending = closed ? 0 : std::max(ring_.pending(), unused) - unused;
  const std::size_t most = ring_.most_pending();
  section_statistics s;
  s.executions = executions();
  if (const extras* const e = given()) s.refused = e->refused.load(relaxed);
  s.held = pending != 0;
  s.most_waiters = most == 0 ? 0 : most - 1;
  if (stand_in_counts* const c = known_stand_ins()) {
    const std::size_t apart = closed ? 0 : c->aside.load(relaxed);
    s.waiters = waiting_in_line(pending, *c) + apart;
    if (apart != 0) c->note(s.waiters);  // so that what was said once is never taken back
    s.most_waiters = std::max(s.most_waiters, c->most.load(relaxed));
    s.withdrawn = c->withdrawn.load(relaxed);
    s.refused += c->closed.load(relaxed);
  } else {
    s.waiters = behind_the_first(pending);
  }
  return s;
}

std::size_t section_core::behind_the_first(std::size_t pending) const noexcept {
  const std::size_t not_waiting = section_ring::ended(mine_) + 1;
  return pending <= not_waiting ? 0 : pending - not_waiting;
}

std::size_t section_core::waiting_in_line(std::size_t pending,
                                          const stand_in_counts& c) const noexcept {
  const std::size_t waiting = behind_the_first(pending);
  const std::size_t left = c.left_in_line.load(relaxed);
  return waiting <= left ? 0 : waiting - left;
}

stand_in_counts& section_core::stand_ins() const { return made(made(given_).stand_ins); }

stand_in_counts* section_core::known_stand_ins() const noexcept {
  const extras* const e = given();
  return e == nullptr ? nullptr : e->stand_ins.load(acquire);  // X1
}

void section_core::count_refusal() noexcept {
  try {
    made(given_).refused.fetch_add(1, relaxed);
  } catch (...) {
  }
}

void section_core::count_withdrawal() const noexcept {
  try {
    stand_ins().withdrawn.fetch_add(1, relaxed);
  } catch (...) {
  }
}

}  // namespace turnstile::detail
