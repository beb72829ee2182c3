// scope_core.hpp - what an async_scope shares with the work it has spawned.
//
// Shape     running = work not yet ended; joiners = stack of coroutines in join; shares = running,
//           plus one for the scope, plus one for each wait: whoever drops the last one frees this.
//           first_failure = the first error that no join has taken.
//
// Edges     J1  running.fetch_sub in ended, then joiners.exchange(acq_rel); joiners.CAS(acq_rel) in
//               push, then running.load(acquire). Of two changes of joiners one comes first: either
//               the exchange finds the joiner, or the CAS finds what the exchange left and with it
//               that nothing runs
//           J2  running.fetch_sub -> running.load: what the work did
//           J3  first_failure.CAS(release) -> exchange(acquire): the error
//           J4  shares.fetch_sub(acq_rel): everything, before it is freed
//
// Progress  add and ended wait-free but for waking joiners.
//
// Dangers   Between taking the stack and resuming what is on it new work may have been spawned and new
//           joiners have come: so who has the stack looks at running again, and puts it back if it is
//           not zero.
//           A joiner may end the scope as soon as it is resumed, while the last piece of work still
//           looks for others: hence the shares.
//
// Proof     test/schedule (scope), model handshake; test/resume, test/stress
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/contract.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/wait_graph.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <source_location>
#include <utility>

namespace turnstile::detail {

class join_awaiter;

class scope_core {
 public:
  void add() noexcept {
    running_.fetch_add(1,
                       relaxed);  // relaxed: whoever adds is before the join, by the caller's order
    shares_.fetch_add(1, relaxed);
  }
  void ended(std::exception_ptr error, std::source_location where) noexcept;
  void abandon() noexcept;

  bool idle() const noexcept { return running_.load(acquire) == 0; }  // J1, J2
  void wait(join_awaiter& j) noexcept;                                // j may be gone afterwards
  scope_members& members() noexcept { return members_; }
  void throw_first_error();

 private:
  struct failure {
    std::exception_ptr error;
    std::source_location where;
  };

  void wake_if_idle() noexcept;
  bool settle(join_awaiter& list) noexcept;
  void put_back(join_awaiter* list) noexcept;
  void push(join_awaiter* first, join_awaiter* last) noexcept;
  void drop_share() noexcept;

  atomic<std::size_t> running_{0};
  atomic<std::size_t> shares_{1};
  atomic<join_awaiter*> joiners_{nullptr};
  atomic<failure*> first_failure_{nullptr};
  scope_members members_;
};

class [[nodiscard("nothing is waited for until the result is awaited")]] join_awaiter
    : private suspended<job> {
 public:
  join_awaiter(scope_core & core, const std::source_location& where) noexcept
      : core_(&core), at_({}, where) {}
  join_awaiter(const join_awaiter& other) noexcept : core_(other.core_), at_(other.at_) {}
  ~join_awaiter() {
    if (waiting_) contract_break("", "a coroutine is destroyed while it waits in join", {});
  }

  bool await_ready() const noexcept { return core_->idle(); }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h);
    if (chain_ != nullptr) tell_of_wait();
    waiting_ = true;
    core_->wait(*this);
  }
  void await_resume() {
    waiting_ = false;
    end_wait(wait_);
    core_->throw_first_error();
  }

 private:
  friend class scope_core;

  void tell_of_wait() {
    wait_.wants = wait_.scope = &core_->members();
    wait_.over = &over_;
    wait_.at = &at_;
    wait_.label = [](const detail::wait&) -> std::string { return "async_scope"; };
    try {
      begin_wait(wait_, chain_);
    } catch (...) {
      stay();
      throw;
    }
  }

  scope_core* core_;
  site at_;
  detail::wait wait_;
  atomic<bool> over_{false};
  guarded<join_awaiter*> next_joiner_{nullptr};
  bool waiting_ = false;
};

// One piece of spawned work. It frees itself at its end.
template <class A>
class spawned : private branch_end, private job {
 public:
  spawned(scope_core& scope, A&& a, std::source_location where)
      : branch_end(&ended_here),
        job(&begin),
        scope_(&scope),
        at_({}, where),
        member_(scope.members(), at_),
        branch_(make_branch<A>(std::move(a))) {}

  void start(executor_ref on) {
    scope_->members().add(member_);
    branch_.prepare(got_, *this, &member_);  // never part of the spawner's chain
    if (on) {
      on.post(*this);  // this may be gone
    } else {
      const chain_scope nothing_held{nullptr};
      branch_.run();
    }
  }

 private:
  static void begin(job& j) noexcept { static_cast<spawned&>(j).branch_.run(); }

  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto* const work = static_cast<spawned*>(&self);
    scope_core& scope = *work->scope_;
    std::exception_ptr error = work->got_.error();
    const std::source_location where = work->at_.where;
    end_frame(work->member_);
    scope.members().remove(work->member_);
    delete work;
    scope.ended(std::move(error), where);
    return {};
  }

  scope_core* scope_;
  site at_;
  member_frame member_;
  result<kept<awaited<A>>> got_;
  branch<kept<awaited<A>>> branch_;
};

}  // namespace turnstile::detail
