// trampoline.hpp - where this thread's coroutines go on, and when others have their turn.
#pragma once

#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/executor.hpp>

#include <optional>

namespace turnstile::detail {

// The loop that resumes coroutines that have no executor, one after the other, so that no
// resumption nests in another. A job and sync_wait open one; without any, the first resumption
// does.
class trampoline {
 public:
  // Who has opened it goes on as soon as nobody waits in it, and does not wait for any coroutine;
  // or from the moment on in which `stays` says so.
  using call_is_over = bool (*)(const void* stays) noexcept;

  trampoline() noexcept : trampoline(false) {}
  trampoline(call_is_over asks, const void* stays) noexcept : trampoline(false) {
    is_over_ = asks;
    stays_ = stays;
  }
  // True: the thread may block as soon as the loop is over, and what is given to its own executor
  // until then may find no thread there.
  explicit trampoline(bool thread_may_block) noexcept
      : outer_(here().bounce), thread_may_block_(thread_may_block) {
    here().bounce = this;
  }
  ~trampoline() {
    if (has_waiting()) run_all();
    here().bounce = outer_;
  }
  trampoline(const trampoline&) = delete;
  trampoline& operator=(const trampoline&) = delete;

  bool has_waiting() const noexcept { return !jobs_.empty(); }
  bool thread_may_block() const noexcept { return thread_may_block_; }
  bool is_outermost() const noexcept { return outer_ == nullptr; }
  // Asked at the end of a turn: it has kept who opened it for long.
  bool keeps_its_caller() noexcept;

  void push(job& j) noexcept { jobs_.push(j); }

  // All that waits in the loops of this thread goes to thread_pool::shared().
  static void give_away_all() noexcept;

 private:
  void run_all() noexcept {
    std::optional<on_top> of_who_may_block;  // whose chain is whole: it is in a call
    if (thread_may_block_) of_who_may_block.emplace();
    off_this_stack([this] { run_all_here(); });
  }

  void run_all_here() noexcept {
    const not_in_fiber coroutines_run_here;
    while (job* const j = jobs_.pop()) job_access::work_here(*j);  // j may be gone
  }

  trampoline* outer_;
  const bool thread_may_block_;
  call_is_over is_over_ = nullptr;
  const void* stays_ = nullptr;
  steady_clock::time_point kept_since_{};
  fifo<job, &job::next> jobs_;
};

// This thread is inside a resumption, a job or a sync_wait, which gives it back the chain it had.
inline bool resumes_here() noexcept { return here().bounce != nullptr; }

// Does the job's work on this thread, never nested in another resumption.
inline void bounce(job& j) noexcept {
  if (trampoline* const t = here().bounce) {
    t->push(j);
  } else {
    trampoline base;
    job_access::work_here(j);
  }
}

// By who has several jobs for bounce: each of them gets to where others can, before one of them
// runs, for it may block.
class resume_after {
 public:
  resume_after() noexcept {
    if (!resumes_here()) base_.emplace();
  }
  resume_after(const resume_after&) = delete;
  resume_after& operator=(const resume_after&) = delete;

 private:
  std::optional<trampoline> base_;
};

// By who is about to block the thread. What waits in the loops and drains around the call would
// wait as long, for nobody else can get at it, and the thread may block for one of those: they go
// where others are.
void give_away() noexcept;
inline void before_blocking() noexcept {
  const thread_state& t = here();
  if (t.bounce != nullptr || t.hands_back != nullptr) give_away();
}

bool others_wait_here() noexcept;

// Asked after a body. True: the coroutine that goes on should let others go first.
inline bool turn_is_over(bool has_ended = here().turn_has_ended()) noexcept {
  if (!has_ended) [[likely]]
    return false;
  begin_turn();
  return others_wait_here();
}

// A coroutine without an executor runs here, on top of a call that would be over long since without
// it.
inline bool keeps_a_call() noexcept {
  const thread_state& t = here();
  return !t.runs_on && t.bounce != nullptr && t.bounce->keeps_its_caller();
}

// Of a coroutine whose turn is over: behind the others. One that keeps a call goes to the shared
// pool, or that call would never return.
void resume_later(job& j) noexcept;

// Posts `j` to its executor; without one it is done on this thread.
inline void resume_at_home(job& j) noexcept {
  if (const executor_ref home = job_access::home(j)) {
    home.post(j);
  } else {
    bounce(j);
  }
}

}  // namespace turnstile::detail
