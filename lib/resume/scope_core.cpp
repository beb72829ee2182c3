// scope_core.cpp - the end of spawned work. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/first_error.hpp>
#include <turnstile/detail/scope_core.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <mutex>
#include <utility>

namespace turnstile::detail {

scope_core::scope_core(std::stop_source stop, on_failure then, std::string_view called)
    : stop_(std::move(stop)), members_(stop_.get_token(), called), on_failure_(then) {
  if (then == on_failure::stop) members_.make_stoppable();
}

void scope_core::ended(std::exception_ptr error, std::source_location where) noexcept {
  if (error != nullptr) {
    failure& first = is_cancellation(error) ? first_cancellation_ : first_failure_;
    const bool is_first = note(first, {std::move(error), where, stop_.stop_requested()});
    if (is_first && on_failure_ == on_failure::stop) request_stop();
  }
  if (running_.fetch_sub(1, release) == 1) wake_if_idle();  // J1, J2
  drop_share();
}

// Without any memory: what there is to tell may be that there was none.
bool scope_core::note(failure& first, failure f) noexcept {
  const std::lock_guard lock(joining_);  // J3
  if (first.error != nullptr) return false;
  first = std::move(f);
  has_failed_.store(true, relaxed);
  return true;
}

scope_core::failure scope_core::take(failure& first) noexcept {
  if (!has_failed_.load(relaxed)) [[likely]]
    return {};
  const std::lock_guard lock(joining_);  // J3
  return std::exchange(first, {});
}

std::stop_token scope_core::ask_for_stop_token() noexcept {
  members_.make_stoppable();
  return stop_.get_token();
}

void scope_core::request_stop() noexcept {
  members_.make_stoppable();
  std::stop_source stop = stop_;
  stop.request_stop();  // this may be gone
}

void scope_core::wait(join_awaiter& j) noexcept {
  shares_.fetch_add(1, relaxed);  // j may be resumed, and end the scope, before we have looked
  {
    const std::lock_guard lock(joining_);
    j.listed_ = true;
    j.next_joiner_ = joiners_;
    if (joiners_ != nullptr) joiners_->previous_joiner_ = &j;
    joiners_ = &j;
  }
  wake_if_idle();
  drop_share();
}

bool scope_core::leave(join_awaiter& j) noexcept {
  const std::lock_guard lock(joining_);
  if (!j.listed_) return false;
  j.listed_ = false;
  if (j.next_joiner_ != nullptr) j.next_joiner_->previous_joiner_ = j.previous_joiner_;
  (j.previous_joiner_ != nullptr ? j.previous_joiner_->next_joiner_ : joiners_) = j.next_joiner_;
  return true;
}

void scope_core::wake_if_idle() noexcept {
  if (!idle()) return;
  join_awaiter* j = take_joiners();
  if (j == nullptr) return;
  resume_after these;
  while (j != nullptr) {
    join_awaiter* const next = j->next_joiner_;
    j->wait_ended();  // j may be gone
    j = next;
  }
}

// Null if new work has come: whoever ends it will look again.
join_awaiter* scope_core::take_joiners() noexcept {
  const std::lock_guard lock(joining_);
  if (joiners_ == nullptr || !settle()) return nullptr;
  for (join_awaiter* j = joiners_; j != nullptr; j = j->next_joiner_) j->listed_ = false;
  join_awaiter* const all = joiners_;
  joiners_ = nullptr;
  return all;
}

// The joins are over, unless new work has come. Those that were told to the graph are over for it
// at the instant at which nothing runs.
bool scope_core::settle() noexcept {
  bool told_any = false;
  for (const join_awaiter* j = joiners_; j != nullptr; j = j->next_joiner_) {
    told_any = told_any || j->wait_.where != told::not_at_all;
  }
  if (!told_any) return idle();
  const no_search meanwhile;  // G4 of wait_graph.hpp
  if (!idle()) return false;
  for (join_awaiter* j = joiners_; j != nullptr; j = j->next_joiner_) j->over_.store(true, release);
  return true;
}

void scope_core::throw_first_error() {
  const failure first = take(first_failure_);
  const failure cancelled = take(first_cancellation_);
  if (first.error != nullptr) std::rethrow_exception(first.error);
  if (cancelled.error != nullptr) std::rethrow_exception(cancelled.error);
}

void scope_core::abandon() noexcept {
  if (!idle()) {
    contract_break("", "an async_scope is destroyed while its work has not ended", {});
  }
  const failure first = take(first_failure_);
  const failure cancelled = take(first_cancellation_);
  if (first.error != nullptr) {
    report_unobserved(first.error, "", first.where);
  } else if (cancelled.error != nullptr && !cancelled.was_asked_for) {
    report_unobserved(cancelled.error, "", cancelled.where);
  }
  drop_share();
}

void scope_core::drop_share() noexcept {
  if (shares_.fetch_sub(1, acq_rel) == 1) delete this;  // J4
}

}  // namespace turnstile::detail
