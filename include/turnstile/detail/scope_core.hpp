// scope_core.hpp - what an async_scope shares with the work it has spawned.
//
// Shape     running = work not yet ended; joiners = coroutines in join, a list under a lock, which
//           a join leaves that a stop ends; shares = running, plus one for the scope, plus one for
//           each wait: whoever drops the last one frees this. first_failure = the first error that
//           no join has taken; first_cancellation = the same of those that are one; both under that
//           lock.
//
// Edges     J1  running.fetch_sub in ended, then the lock; the lock in wait, then
//               running.load(acquire).
//               One of two that take the lock comes first: either the last work to end finds the
//               joiner, or the joiner finds what that work left and with it that nothing runs
//           J2  running.fetch_sub -> running.load: what the work did
//           J3  the lock: the errors
//           J4  shares.fetch_sub(acq_rel): everything, before it is freed
//
// Progress  add and ended wait-free, but for a lock for a few steps of a list where nothing runs
//           any more. wait and leave take it too, and so does who has an error to tell or to take.
//           Joins that the graph was told of: also its lock.
//
// Dangers   Before the lock is taken new work may have been spawned: so running is looked at again.
//           A joiner may end the scope as soon as it is resumed, while the last piece of work still
//           looks for others: hence the shares.
//           A stop runs callbacks, which may bring back who ends the scope: so it is asked for
//           through a copy of the source.
//
// Proof     test/schedule (scope, withdrawal), model handshake; test/resume, test/stress
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/stoppable_wait.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/errors.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <source_location>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

namespace turnstile::detail {

class join_awaiter;

enum class on_failure : bool { go_on, stop };

class scope_core {
 public:
  // `stop` without a state: nobody can ask for one.
  // `called` is what errors call it.
  explicit scope_core(std::stop_source stop = std::stop_source(std::nostopstate),
                      on_failure then = on_failure::go_on, std::string_view called = "async_scope");

  void add() noexcept {
    // Relaxed: whoever adds is before the join, by the caller's order.
    running_.fetch_add(1, relaxed);
    shares_.fetch_add(1, relaxed);
  }
  void ended(std::exception_ptr error, std::source_location where) noexcept;
  void abandon() noexcept;

  bool idle() const noexcept { return running_.load(acquire) == 0; }  // J1, J2
  void wait(join_awaiter& j) noexcept;                                // j may be gone afterwards
  bool leave(join_awaiter& j) noexcept;  // false: it is not in the list any more
  scope_members& members() noexcept { return members_; }
  void throw_first_error();

  std::stop_token ask_for_stop_token() noexcept;
  void request_stop() noexcept;
  bool stop_requested() const noexcept { return stop_.stop_requested(); }

 private:
  struct failure {
    std::exception_ptr error;
    std::source_location where;
    bool was_asked_for = false;  // a stop had been requested by then
  };
  bool note(failure& first, failure f) noexcept;  // false: there is one already
  failure take(failure& first) noexcept;
  void wake_if_idle() noexcept;
  bool settle() noexcept;
  join_awaiter* take_joiners() noexcept;
  void drop_share() noexcept;

  atomic<std::size_t> running_{0};
  atomic<std::size_t> shares_{1};
  mutex joining_;
  guarded<join_awaiter*> joiners_{nullptr};  // under the lock
  // Whether there was ever an error to take. Relaxed: of what has ended, by J2.
  atomic<bool> has_failed_{false};
  failure first_failure_;       // under the lock
  failure first_cancellation_;  // under the lock
  const std::stop_source stop_;
  scope_members members_;
  const on_failure on_failure_;
};

class [[nodiscard("nothing is waited for until the result is awaited")]] join_awaiter
    : private stoppable_wait {
 public:
  join_awaiter(scope_core& core, const std::source_location& where) noexcept
      : join_awaiter(core, {{}, where}, &take_back) {}
  join_awaiter(join_awaiter&& other) noexcept
      : core_(other.core_),
        at_(other.at_),
        when_stopped_(other.when_stopped_),
        once_(std::move(other.once_)) {}

  bool await_ready() noexcept {
    once_.begin();
    return core_->idle();
  }
  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    this->suspend(h);
    if (chain_ != nullptr) tell_of_wait();
    once_.note_waiting();
    const std::stop_token stop = surroundings();
    const taking when_stopped = when_stopped_;
    core_->wait(*this);  // without a stop this may be gone
    return !stop.stop_possible() || listen(stop, when_stopped);
  }
  void await_resume() {
    waited();
    core_->throw_first_error();
  }

 protected:
  // For a fiber: a stop is passed on to the work, and the wait goes on until that has ended.
  join_awaiter(scope_core& core, const site& at) noexcept : join_awaiter(core, at, &pass_on) {}

  void waited() {
    const bool withdrawn = was_withdrawn();
    once_.note_going_on();
    end_wait(wait_);
    if (withdrawn) throw operation_cancelled();
  }

 private:
  friend class scope_core;

  join_awaiter(scope_core& core, const site& at, taking when_stopped) noexcept
      : core_(&core), at_(at), when_stopped_(when_stopped) {}

  static bool pass_on(stoppable_wait& w) noexcept {
    static_cast<join_awaiter&>(w).core_->request_stop();
    return false;
  }

  void tell_of_wait() {
    wait_.wants = &core_->members();
    wait_.is_join = true;
    wait_.listens = when_stopped_ == &take_back;
    wait_.over = &over_;
    wait_.at = &at_;
    wait_.label = [](const detail::wait& w) { return std::string(w.scope()->called()); };
    try {
      begin_wait(wait_, chain_);
    } catch (...) {
      stay();
      throw;
    }
  }

  static bool take_back(stoppable_wait& w) noexcept {
    auto& j = static_cast<join_awaiter&>(w);
    if (!j.core_->leave(j)) return false;
    end_wait(j.wait_);
    return true;
  }

  scope_core* core_;
  site at_;
  taking when_stopped_;
  detail::wait wait_;
  atomic<bool> over_{false};
  guarded<bool> listed_{false};  // under the scope's lock, as the next two
  guarded<join_awaiter*> next_joiner_{nullptr};
  guarded<join_awaiter*> previous_joiner_{nullptr};
  for_once<"join", "waits in join"> once_;
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
        branch_(detail::make_branch<A>(std::move(a))) {}

  void start(executor_ref on) {
    scope_->members().add(member_);
    branch_.prepare(*this, &member_);  // never part of the spawner's chain
    if (on) {
      on.post(*this);  // this may be gone
    } else {
      const on_top of_the_spawner;
      const not_in_fiber coroutines_run_here;
      branch_.run();  // this may be gone
    }
  }

 private:
  static void begin(job& j) noexcept { static_cast<spawned&>(j).branch_.run(); }

  static std::coroutine_handle<> ended_here(branch_end& self) noexcept {
    auto* const work = static_cast<spawned*>(&self);
    scope_core& scope = *work->scope_;
    std::exception_ptr error = work->branch_.got().error();
    const std::source_location where = work->at_.where;
    end_frame(work->member_);
    scope.members().remove(work->member_);
    const chain_scope nothing_held{nullptr};  // what the work began on ends with it
    delete work;
    scope.ended(std::move(error), where);
    return {};
  }

  scope_core* scope_;
  site at_;
  member_frame member_;
  branch<kept<awaited<A>>> branch_;
};

}  // namespace turnstile::detail
