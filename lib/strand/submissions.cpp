// submissions.cpp - a section while a device works for it. The protocol is in submissions.hpp.

#include "strand/submissions.hpp"

#include "strand/batch.hpp"
#include "strand/extras.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/submission.hpp>
#include <turnstile/errors.hpp>

#include <mutex>

namespace turnstile::detail {

bool submissions::hold() noexcept {
  std::uint64_t seen = 0;
  if (word_.compare_exchange_strong(seen, held_now(), acq_rel, relaxed)) return true;  // T1, T3
  word_.exchange(0, acquire);  // T2: only the owner takes `came` away
  return false;
}

void submissions::hold_in_any_case() noexcept { word_.exchange(held_now(), acq_rel); }  // T1, T3

bool submissions::announce() noexcept {
  std::uint64_t seen = word_.load(relaxed);
  std::uint64_t said = 0;
  do {
    said = is_held(seen) ? 0 : came;
  } while (!word_.compare_exchange_weak(seen, said, acq_rel, relaxed));  // T1, T2
  return is_held(seen);
}

bool submissions::claim(std::uint64_t n) noexcept {
  const auto is_for_caller = [n](std::uint64_t word) {
    return is_held(word) && ((word & room) != 0 || word >> flags == n);
  };
  std::uint64_t seen = word_.load(relaxed);
  std::uint64_t to = 0;
  do {
    to = is_for_caller(seen) ? 0 : seen;
  } while (!word_.compare_exchange_weak(seen, to, acq_rel, relaxed));  // T1, T3
  return is_for_caller(seen);
}

// What the section guards is in nobody knows what state.
void submissions::note_loss(const std::exception_ptr& with) noexcept {
  if (with == nullptr || !of_device_error(with, &device_error::lost)) return;
  const std::lock_guard lock(losing_);
  section_core* const section = section_;
  if (section == nullptr || section->is_lost()) return;
  lost_with_ = with;
  section->lose();
}

void submissions::section_ends() noexcept {
  const std::lock_guard lock(losing_);
  section_ = nullptr;
}

lane& submissions::own_lane(device place) {
  if (!own) own = stream_access::lane_of(stream(place.is_any() ? device::host() : place));
  return *own;
}

submissions& section_core::made_submissions(bool with_lane) {
  extras& e = made(given_);
  submissions* known = e.device_work.load(acquire);  // X1
  if (known != nullptr) return *known;
  submissions_ref fresh(new submissions(*this, e.max_in_flight));
  if (with_lane) fresh->own_lane(where());
  submissions* const all = fresh.get();
  if (!e.device_work.compare_exchange_strong(known, all, release, acquire)) return *known;  // X1
  all->keep();  // the section's share
  return *all;
}

submissions* section_core::known_submissions() const noexcept {
  const extras* const e = given();
  return e == nullptr ? nullptr : e->device_work.load(acquire);  // X1
}

// By who has made one, or was given a request that has.
submissions& section_core::its_submissions() const noexcept {
  return *given_.load(relaxed)->device_work.load(relaxed);
}

device section_core::where() const noexcept {
  const extras* const e = given();
  return e == nullptr ? device::any() : e->place;
}

bool section_core::hands_on_late() const noexcept {
  return has_aside_ || given()->hand_on == turnstile::release::completion;
}

std::uint64_t section_core::leave_tail(const point_ref& end, lane& l) noexcept {
  submissions& all = its_submissions();
  all.tail = end;
  all.tail_lane = &l;
  has_tail_ = true;
  return ++all.tail_number;
}

// It is reached.
void section_core::forget_tail(submissions& all) noexcept {
  const point_ref tail = std::move(all.tail);
  all.tail_lane = nullptr;
  has_tail_ = false;
  all.note_loss(*tail);
}

void section_core::lose() noexcept {
  all_that_refuse.count.fetch_add(1, relaxed);
  set(is_lost_with_device, true, true);  // T4
}

std::exception_ptr section_core::lost_with() const noexcept {
  static_cast<void>(special_.load(acquire));  // T4
  return its_submissions().lost_with();
}

// The place whose turn it is has ended. False: `next` is what runs next; null: the section is held,
// and may be gone.
bool section_core::may_finish_place(request*& next) noexcept {
  const submissions_ref all = submissions_ref::more(its_submissions());
  for (;;) {
    const point_ref tail = all->tail;
    if (tail->is_reached()) {
      forget_tail(*all);
      return true;
    }
    if (ring_.has_more(mine_)) return true;
    ring_.account(mine_);
    all->front = submissions::wait::nobody;
    const std::uint64_t n = all->tail_number;
    if (!all->hold()) continue;
    next = nullptr;
    if (!tail->is_reached() || !all->claim(n)) return false;  // T3
    if (all->front != submissions::wait::nobody) {
      next = next_of_held();
      return false;
    }
  }
}

submissions::wait submissions::keeps_waiting(const request& who) const noexcept {
  const submission* const s = submission::of(who);
  if (s == nullptr || !s->can_follow(*tail)) return wait::tail;
  return has_room() ? wait::nobody : wait::room;
}

// `r` has its turn. Null: it has to wait, and the section is held, and may be gone. Otherwise what
// runs next, `r` or what is first then.
request* section_core::unless_it_waits(request* r, request*& own, batch& done) noexcept {
  const submissions_ref all = submissions_ref::more(its_submissions());
  while (r != nullptr && has_tail_) {
    const point_ref tail = all->tail;
    request& who = stand_in::is_one(*r) ? stand_in::of(*r).behind() : *r;
    if (tail->is_reached()) {
      forget_tail(*all);
      return r;
    }
    const submissions::wait why = all->keeps_waiting(who);
    if (why == submissions::wait::nobody) return r;
    if (r == own) own = nullptr;  // others may serve it, and it is gone then
    put_back_in_line(*r, done);
    ring_.account(mine_);
    all->front = why;
    const std::uint64_t n = all->tail_number;
    all->hold_in_any_case();
    if (!all->may_go_on(why, *tail) || !all->claim(n)) return nullptr;  // T3
    r = next_of_held();
  }
  return r;
}

// It may be withdrawn there, like any other that waits in line.
void section_core::put_back_in_line(request& r, batch& done) noexcept {
  ring_.put_back(r, mine_);
  if (!stand_in::is_one(r)) return;
  stand_in& s = stand_in::of(r);
  request& who = s.behind();
  s.stands = stand_in::position::line;
  if (s.unpin()) done.add(who);
}

// Whoever is told that work is complete owns the held section. It runs no bodies.
void section_core::go_on_with_device() noexcept {
  const submissions_ref all = submissions_ref::more(its_submissions());
  while (all->front != submissions::wait::nobody) {
    const point_ref tail = all->tail;
    const submissions::wait front = all->front;
    if (all->may_go_on(front, *tail)) break;
    const std::uint64_t n = all->tail_number;
    all->hold_in_any_case();
    if (!all->may_go_on(front, *tail) || !all->claim(n)) return;  // T3
  }
  batch done;
  done.keep_off_executor();
  if (request* const r = next_of_held()) pass_to_executor(*r, done);
  done.deliver();
}

// The same, by who is told that the work is complete. Those who wait apart are asked elsewhere.
void section_core::finished_by_device(request& r) noexcept {
  batch done;
  done.keep_off_executor();
  if (r.accepted_at != 0) [[unlikely]]
    end_time();
  count_execution();
  done.add(r);
  if (!has_aside_ || !ask_on_executor(done)) {
    if (request* const next = finish_and_next()) pass_to_executor(*next, done);
  }
  done.deliver();
}

request* section_core::next_of_held() noexcept {
  const auto front = std::exchange(its_submissions().front, submissions::wait::nobody);
  return front == submissions::wait::nobody ? finish_and_next() : next_awaited();
}

section_core::published section_core::publish_submission(request& r, place p) noexcept {
  const submissions_ref all = submissions_ref::more(its_submissions());
  batch done(rests_on_held());
  const after_publish what = publish_in_ring(r, p);
  if (what == after_publish::closed) return published::closed;
  if (what == after_publish::take_over) {
    take_over(r, nullptr, done);
  } else if (all->announce()) {
    if (request* const next = next_of_held()) serve_on(*next, done);
  }
  done.deliver();
  return published::waiting;
}

}  // namespace turnstile::detail
