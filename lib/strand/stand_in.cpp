// stand_in.cpp - asking a request to go, and whose turn it is to let it. The protocol is in the
// header.

#include "base/captured.hpp"
#include "strand/batch.hpp"
#include "strand/gate.hpp"
#include "strand/spares.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>
#include <turnstile/thread_pool.hpp>

#include <memory>
#include <new>
#include <utility>

namespace turnstile::detail {

stand_in::stand_in() noexcept
    : word_(withdrawn | awaiter_done),
      who_(nullptr),
      section_(nullptr),
      calls_(nullptr),
      counts_(nullptr) {
  start = &step;
  may_wait = true;
  back_to = nullptr;
  accepted_at = 0;
  work_ = &run_job;
}

stand_in::~stand_in() {
  if (counts_ != nullptr) counts_->drop();
}

// A spare one that stood in the same section's line has its label, and its share of the counts.
void stand_in::stand_for(request& who, section_core& section, const calls& c) {
  stand_in_counts& counts = section.stand_ins();
  if (counts_ != &counts) {
    label_ = section.label();
    if (counts_ != nullptr) counts_->drop();
    counts_ = &counts;
    counts.share();
  }
  who_ = &who;
  section_ = &section;
  calls_ = &c;
  home_ = job_access::home(who);
  stands = position::line;
  is_awake = false;
  older = younger = next_unpinned = nullptr;
  word_.store(one_pin, relaxed);  // nobody else has it
}

void stand_in::give_up() noexcept {
  if (is_somebodys() && keep_spare(*this)) return;
  delete this;
}

std::exception_ptr stand_in::error(withdrawal why) const noexcept {
  return captured([&] {
    if (why == withdrawal::closed) throw section_closed(label_);
    if (why == withdrawal::expired) throw deadline_exceeded(label_);
    throw operation_cancelled(label_);
  });
}

void stand_in::listen_to(const withdrawal_sources& own) noexcept {
  std::stop_token stop = own.stop.get();
  if (stop.stop_possible()) own_.emplace(std::move(stop), on_stop{this});
  if (own.deadline != never) alarm_.emplace(*this).start(own.deadline);
}

void stand_in::listen_to(std::stop_token surrounding) noexcept {
  if (surrounding.stop_possible()) around_.emplace(std::move(surrounding), on_stop{this});
}

stand_in* make_stand_in(request& who, section_core& section, const stand_in::calls& c) noexcept {
  try {
    std::unique_ptr<stand_in> s(take_spare());
    if (s == nullptr) s = std::make_unique<stand_in>();
    s->stand_for(who, section, c);
    return s.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void refuse_as_stopped(const section_core& section) {
  section.count_withdrawal();
  throw operation_cancelled(section.label());
}

void refuse_if_expired(const section_core& section, time_point deadline) {
  prepare_timers();
  if (!has_come(deadline)) return;
  section.count_withdrawal();
  throw deadline_exceeded(section.label());
}

bool stand_in::change(std::uint32_t& seen, std::uint32_t to) noexcept {
  return word_.compare_exchange_weak(seen, to, acq_rel, relaxed);  // A1
}

void stand_in::ask(withdrawal why) noexcept {
  std::uint32_t seen = word_.load(relaxed);
  std::uint32_t to = 0;
  do {
    if ((seen & (taken | withdrawn | asked_bits)) != 0) return;
    to = seen | static_cast<std::uint32_t>(why);
    if (seen / one_pin == 0) to = (to | withdrawn) & ~posted;
  } while (!change(seen, to));
  if ((to & withdrawn) == 0) return;
  end(seen);
  batch::post_back(*who_);  // this may be gone
}

bool stand_in::pin() noexcept {
  std::uint32_t seen = word_.load(relaxed);
  do {
    if ((seen & withdrawn) != 0) return false;
  } while (!change(seen, seen + one_pin));
  return true;
}

bool stand_in::close() noexcept {
  std::uint32_t seen = word_.load(relaxed);
  std::uint32_t to = 0;
  do {
    to = seen | section_done;
    if ((seen & asked_bits) == 0) to |= static_cast<std::uint32_t>(withdrawal::closed);
  } while (!change(seen, to));
  return (seen & asked_bits) == 0;
}

void stand_in::close_outside() noexcept {
  if (close()) calls_->never_in(*who_);
}

bool stand_in::take() noexcept {
  std::uint32_t seen = word_.load(relaxed);
  do {
    if ((seen & asked_bits) != 0) return false;
  } while (!change(seen, (seen - one_pin) | taken | section_done));
  return true;
}

bool stand_in::post(executor_ref to, queued where) noexcept {
  std::uint32_t seen = word_.load(relaxed);
  do {
    if ((seen & asked_bits) != 0) return false;
  } while (!change(seen, seen | posted));
  detail::post(to, *this, where);  // still pinned
  if (unpin()) batch::post_back(*who_);
  return true;
}

bool stand_in::unpin() noexcept {
  std::uint32_t seen = word_.load(relaxed);
  std::uint32_t to = 0;
  bool ends = false;
  do {
    to = seen - one_pin;
    ends = to / one_pin == 0 && (seen & asked_bits) != 0 && (seen & (taken | withdrawn)) == 0;
    if (ends) to = (to | withdrawn) & ~posted;
  } while (!change(seen, to));
  if (ends) end(seen);
  if (nobody_needs(to)) give_up();
  return ends;
}

// Also makes room for those who wait outside. What was closed before it was in line is not left
// there: nobody will pass it over.
void stand_in::count(withdrawal why, bool was_in_line) noexcept {
  if (was_in_line) counts_->left_in_line.fetch_add(1, relaxed);
  if (stands == position::aside) counts_->aside.fetch_sub(1, relaxed);
  if (gate* const g = counts_->limit) {
    if (stands == position::line) g->leave();
    if (stands == position::aside) g->leave_aside();
  }
  (why == withdrawal::closed ? counts_->closed : counts_->withdrawn).fetch_add(1, relaxed);
}

// It is withdrawn, by this call's doing, and its awaiter waits to be brought back. Of the section
// nothing is touched but what the withdrawn request owned.
void stand_in::end(std::uint32_t was) noexcept {
  const bool was_in_line = stands == position::line && (was & section_done) == 0;
  count(static_cast<withdrawal>(word_.load(relaxed) & asked_bits), was_in_line);
  calls_->over(*who_);
  if (counts_->limit != nullptr) let_in(*counts_->limit);
  if ((was & posted) != 0) section_->go_past_withdrawn();
}

// Puts those for whom there is room now into the line.
void stand_in::let_in(gate& g) noexcept {
  section_core* section = nullptr;
  bool closes = false;
  for (stand_in* s = g.first_to_let_in(); s != nullptr; s = g.next_to_let_in(closes)) {
    section = s->section_;
    section->let_in(*s);  // the section may be gone, unless somebody leaves its close to us
  }
  if (closes) section->finish_close(section_core::way_back::posted);
}

stand_in_counts::~stand_in_counts() { delete limit; }

// True: the job owns the section again, with this pinned.
bool stand_in::own_again() noexcept {
  std::uint32_t seen = word_.load(relaxed);
  do {
    if ((seen & withdrawn) != 0) {
      add(section_done);
      return false;
    }
  } while (!change(seen, (seen & ~posted) + one_pin));
  return true;
}

void stand_in::run_job(job& j) noexcept {
  auto& self = static_cast<stand_in&>(static_cast<request&>(j));
  section_core* const section = self.section_;
  if (self.own_again()) section->serve_posted(self);
}

outcome stand_in::step(request& r) noexcept {
  stand_in& self = of(r);
  request& who = *self.who_;
  const bool may_run = self.may_run();
  if (!may_run && self.section_->may_set_aside()) {
    self.section_->set_aside(self);
    return outcome::set_aside;
  }
  const calls& called = *self.calls_;
  if (self.take()) return may_run ? who.start(who) : called.no_room(who);
  self.pass_over();  // pinned still
  return outcome::withdrawn;
}

void stand_in::expire(timer& t) noexcept { static_cast<alarm&>(t).self->ask(withdrawal::expired); }

std::exception_ptr stand_in::let_go() noexcept {
  own_.reset();  // A2
  around_.reset();
  if (alarm_) {
    alarm_->cancel();
    alarm_.reset();
  }
  const std::uint32_t seen = word_.load(acquire);  // A1
  std::exception_ptr why;
  if ((seen & withdrawn) != 0) why = error(static_cast<withdrawal>(seen & asked_bits));
  if (nobody_needs(seen | awaiter_done)) {
    give_up();  // nobody changes it any more
  } else {
    add(awaiter_done);
  }
  return why;
}

void stand_in::add(std::uint32_t bit) noexcept {
  std::uint32_t seen = word_.load(relaxed);
  while (!change(seen, seen | bit)) {
  }
  if (nobody_needs(seen | bit)) give_up();
}

}  // namespace turnstile::detail
