// submission.cpp - a request that submits: its turn, and its way home. Drawn in
// detail/submission.hpp.

#include "executor/or_shared.hpp"
#include "strand/submissions.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/submission.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/resource.hpp>

#include <mutex>
#include <utility>

namespace turnstile::detail {

void submitted_mark::tell() noexcept {
  submitted_waiter* w = nullptr;
  {
    const std::lock_guard locked(lock_);
    told_ = true;
    w = std::exchange(first_, nullptr);
  }
  while (w != nullptr) {
    submitted_waiter* const next = w->next;
    w->go_on();  // w may be gone
    w = next;
  }
}

bool submitted_mark::add(submitted_waiter& w) noexcept {
  const std::lock_guard locked(lock_);
  if (told_) return false;
  w.next = nullptr;
  place_of(nullptr) = &w;
  return true;
}

bool submitted_mark::take_back(submitted_waiter& w) noexcept {
  const std::lock_guard locked(lock_);
  guarded<submitted_waiter*>& place = place_of(&w);
  if (place == nullptr) return false;
  place = w.next;
  return true;
}

// Under the lock. What leads to `w`, or to the end if it is not there.
guarded<submitted_waiter*>& submitted_mark::place_of(const submitted_waiter* w) noexcept {
  guarded<submitted_waiter*>* at = &first_;
  while (*at != nullptr && *at != w) at = &static_cast<submitted_waiter*>(*at)->next;
  return *at;
}

submission::submission(section_core& section, lane_ref on)
    : point_waiter(&reached), section_(&section), lane_(std::move(on)) {}

submission::submission(submission&& other) noexcept
    : point_waiter(&reached), section_(other.section_), lane_(std::move(other.lane_)) {}

submission::~submission() = default;

void submission::prepare(const resource_list& uses) {
  section_->counting_refusal([&] {
    refuse_if_elsewhere(uses);
    all_ = submissions_ref::more(section_->made_submissions(!lane_));
  });
}

void submission::refuse_if_elsewhere(const resource_list& uses) const {
  const device place = section_->where();
  if (lane_ && !place.is_any() && lane_->where() != place) {
    throw device_mismatch_error("the stream for section \"" + section_->label() + "\"", place,
                                lane_->where());
  }
  if (!uses.empty()) refuse_elsewhere(*section_, uses, true);
}

void submission::stand_before(request& r, executor_ref home) noexcept {
  request_ = &r;
  home_of_request_ = or_shared(home);
  r.back_to = nullptr;
  job_access::set_home(r, executor_ref(*this));
}

submission* submission::of(const request& r) noexcept {
  return job_access::as<submission>(job_access::home(r));
}

// By the owner. A stream that is made when its turn comes can wait for what has an event.
bool submission::can_follow(const point& tail) const noexcept {
  const lane* const on = lane_ ? lane_.get() : all_->own.get();
  if (on == nullptr) return section_->where().index() < 0 || tail.native() != nullptr;
  return on == all_->tail_lane || on->can_wait_for(tail);
}

void submission::choose_lane() {
  if (!lane_) lane_ = lane_ref::more(all_->own_lane(section_->where()));
}

// By the owner. Nothing was submitted if it fails.
bool submission::begin() noexcept {
  try {
    choose_lane();
    if (all_->tail && all_->tail_lane != lane_.get()) lane_->wait(*all_->tail);
    error_before_ = lane_->begin_submission();
    return true;
  } catch (...) {
    error_ = std::current_exception();
    return false;
  }
}

outcome submission::submitted() noexcept {
  lane::submitted done = lane_->end_submission(error_before_);
  error_ = std::move(done.error);
  if (!done.end) {
    all_->note_loss(error_);
    return outcome::finished;
  }
  end_ = std::move(done.end);
  if (section_->hands_on_late()) {
    tell_submitted();
    holds_ = true;
    if (end_->add(*this)) return outcome::suspended;  // this may be gone
    holds_ = false;
    all_->note_loss(*end_);
    return outcome::finished;
  }
  all_->begin_one();
  number_ = section_->leave_tail(end_, *lane_);
  return outcome::finished;
}

std::exception_ptr submission::error() const noexcept {
  if (error_ != nullptr) return error_;
  return end_ && end_->failed() ? end_->error() : nullptr;
}

// The section may be gone, and with it its name.
void submission::tell_error_beside(const std::exception_ptr& its_own,
                                   std::source_location where) const noexcept {
  if (error_ == nullptr || error_ == its_own) return;
  const int code = of_device_error(error_, &device_error::code);
  if (code == 0 || code != of_device_error(its_own, &device_error::code)) {
    report_unobserved(error_, {}, where);
  }
}

// Once.
void submission::tell_submitted() noexcept {
  if (submitted_mark* const m = std::exchange(submitted_, nullptr)) m->tell();
}

// Its request is handed back.
void submission::post(job&) noexcept {
  tell_submitted();
  if (!end_ || !end_->add(*this)) complete();  // else this may be gone
}

void submission::reached(point_waiter& w) noexcept {
  auto& self = static_cast<submission&>(w);
  if (!self.holds_) return self.complete();
  self.holds_ = false;
  self.all_->note_loss(*self.end_);
  self.section_->finished_by_device(*self.request_);  // hands it back: self may be gone
}

void submission::complete() noexcept {
  if (const std::uint64_t n = std::exchange(number_, 0); n != 0) {
    all_->note_loss(*end_);
    all_->end_one();  // T3
    if (all_->claim(n)) section_->go_on_with_device();
  }
  go_home();
}

void submission::go_home() noexcept { home_of_request_.post(*request_); }

}  // namespace turnstile::detail
