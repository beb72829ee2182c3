// scope_core.cpp - the end of spawned work. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/scope_core.hpp>

namespace turnstile::detail {

void scope_core::ended(std::exception_ptr error, std::source_location where) noexcept {
  if (error != nullptr && !failed_.exchange(true, relaxed)) {
    first_error_ = std::move(error);
    failed_at_ = where;
  }
  if (running_.fetch_sub(1, seq_cst) == 1) {  // J1, J2
    bool unused;
    wake_joiners(nullptr, unused);
  }
  drop_share();
}

bool scope_core::wait(join_awaiter& j) noexcept {
  shares_.fetch_add(1, relaxed);  // j may be resumed, and end the scope, before we have looked
  j.next_joiner_ = joiners_.load(relaxed);
  while (!joiners_.compare_exchange_weak(j.next_joiner_, &j, seq_cst)) {  // J1
  }
  bool found = false;
  if (idle()) wake_joiners(&j, found);
  drop_share();
  return !found;  // not found: whoever took it off the stack resumes it
}

void scope_core::wake_joiners(const join_awaiter* but, bool& found) noexcept {
  join_awaiter* j = joiners_.exchange(nullptr, seq_cst);  // J1
  while (j != nullptr) {
    join_awaiter* const next = j->next_joiner_;
    if (j == but) {
      found = true;
    } else {
      resume_at_home(*j);  // j may be gone
    }
    j = next;
  }
}

void scope_core::throw_first_error() {
  if (!failed_.load(relaxed)) return;
  std::exception_ptr error = std::exchange(first_error_, nullptr);
  failed_.store(false, relaxed);
  std::rethrow_exception(std::move(error));
}

void scope_core::abandon() noexcept {
  if (!idle()) {
    contract_break("", "an async_scope is destroyed while its work has not ended", {});
  }
  if (first_error_ != nullptr) report_unobserved(first_error_, "", failed_at_);
  drop_share();
}

void scope_core::drop_share() noexcept {
  if (shares_.fetch_sub(1, acq_rel) == 1) delete this;  // J3
}

}  // namespace turnstile::detail
