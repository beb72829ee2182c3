// scope_core.cpp - the end of spawned work. The protocol is in the header.

#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/scope_core.hpp>

#include <memory>

namespace turnstile::detail {

void scope_core::ended(std::exception_ptr error, std::source_location where) noexcept {
  if (error != nullptr) {
    auto mine = std::make_unique<failure>(failure{std::move(error), where});
    failure* none = nullptr;
    if (first_failure_.compare_exchange_strong(none, mine.get(), release, relaxed)) {  // J3
      mine.release();
    }
  }
  if (running_.fetch_sub(1, release) == 1) wake_if_idle();  // J1, J2
  drop_share();
}

void scope_core::wait(join_awaiter& j) noexcept {
  shares_.fetch_add(1, relaxed);  // j may be resumed, and end the scope, before we have looked
  push(&j, &j);
  wake_if_idle();
  drop_share();
}

void scope_core::wake_if_idle() noexcept {
  while (idle()) {
    join_awaiter* j = joiners_.exchange(nullptr, acq_rel);  // J1
    if (j == nullptr) return;
    if (!settle(*j)) {
      put_back(j);
      continue;
    }
    while (j != nullptr) {
      join_awaiter* const next = j->next_joiner_;
      resume_at_home(*j);  // j may be gone
      j = next;
    }
    return;
  }
}

// The joins are over, unless new work has come. Those that were told to the graph are over for it at
// the instant at which nothing runs.
bool scope_core::settle(join_awaiter& list) noexcept {
  bool told_any = false;
  for (const join_awaiter* j = &list; j != nullptr; j = j->next_joiner_) {
    told_any = told_any || j->wait_.where != told::not_at_all;
  }
  if (!told_any) return idle();
  const no_search meanwhile;  // G4 of wait_graph.hpp
  if (!idle()) return false;
  for (join_awaiter* j = &list; j != nullptr; j = j->next_joiner_) j->over_.store(true, release);
  return true;
}

void scope_core::put_back(join_awaiter* list) noexcept {
  join_awaiter* last = list;
  while (last->next_joiner_ != nullptr) last = last->next_joiner_;
  push(list, last);
}

void scope_core::push(join_awaiter* first, join_awaiter* last) noexcept {
  join_awaiter* seen = joiners_.load(relaxed);
  do {
    last->next_joiner_ = seen;
  } while (!joiners_.compare_exchange_weak(seen, first, acq_rel, relaxed));  // J1
}

void scope_core::throw_first_error() {
  const std::unique_ptr<failure> first(first_failure_.exchange(nullptr, acquire));  // J3
  if (first != nullptr) std::rethrow_exception(first->error);
}

void scope_core::abandon() noexcept {
  if (!idle()) {
    contract_break("", "an async_scope is destroyed while its work has not ended", {});
  }
  const std::unique_ptr<failure> first(first_failure_.exchange(nullptr, relaxed));  // J2
  if (first != nullptr) report_unobserved(first->error, "", first->where);
  drop_share();
}

void scope_core::drop_share() noexcept {
  if (shares_.fetch_sub(1, acq_rel) == 1) delete this;  // J4
}

}  // namespace turnstile::detail
