// batch.hpp - finished requests on their way back, handed over in one go per place they go to, and
// requests on their way from one section to the next.
#pragma once

#include "executor/hand_back.hpp"

#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/request.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/thread_pool.hpp>

#include <array>
#include <cstddef>
#include <optional>
#include <utility>

namespace turnstile::detail {

class batch;

// Takes all that entered a section out of `done`, and goes on with it (several.cpp).
void enter_next_sections(batch& done) noexcept;

// Passes on what the sections go on with that the request leaves, as far as that has not begun
// (several.cpp).
class several_request;
void give_away_owed(several_request& r, batch& done) noexcept;

class batch {
 public:
  batch() noexcept = default;
  explicit batch(bool rests_on_held) noexcept : rests_on_held_(rests_on_held) {}
  batch(const batch&) = delete;
  batch& operator=(const batch&) = delete;

  // Nothing goes on within this call: who withdraws runs no code of users.
  void keep_off() noexcept { keeps_off_ = true; }
  bool keeps_off() const noexcept { return keeps_off_; }
  // The same on a thread that is only told of something, or withdraws a request.
  void keep_off_executor() noexcept { keeps_off_ = is_off_ = true; }
  bool is_off() const noexcept { return is_off_; }
  // The same, and a section goes on on the shared pool, which runs nothing within post: where those
  // who wait are at home nobody may run, and others are in line.
  void keep_off_to_shared() noexcept { keeps_off_ = to_shared_ = true; }
  bool passes_to_shared() const noexcept { return to_shared_; }
  // The job of a bound section, on its executor. That may have passed it on, and then the thread
  // says otherwise.
  void begin_at_home_of(const section_core& s) noexcept { at_home_of_ = &s; }
  bool is_at_home_of(const section_core& s) const noexcept { return at_home_of_ == &s; }
  static void post_back(request& r) noexcept {
    batch one;
    one.keep_off();
    one.add(r);
    one.deliver();
  }
  // One that has an executor; as alone in a batch that keeps here, or not.
  static void send_one(request& r, bool keep) noexcept {
    const executor_ref home = job_access::home(r);
    if (worker* const to = worker_for(r, home, keep)) {
      hand_back(*to, &r, &r);  // r may be gone
    } else {
      home.post(r);  // r may be gone
    }
  }

  // As it was when this began: the body of a thread that blocks does not run within this call.
  bool rests_on_held() const noexcept { return rests_on_held_; }

  // What was served for other workers of this thread's pool stays here from now on, or goes back.
  void keep_here(bool keep) noexcept { keep_ = keep; }

  TURNSTILE_INLINE void add(request& r) noexcept {
    executor_ref home = job_access::home(r);
    if (!home && keeps_off_) home = thread_pool::shared();
    if (home) {
      worker* const to = worker_for(r, home, keep_);
      pile& p = pile_for(home, to);
      p.jobs.push(r);
      ++p.n;
    } else {
      homeless_.push(r);
    }
  }

  // The request that the call on this thread waits for, once it has ended: it goes on when the call
  // returns, unless a body that runs before that blocks the thread.
  void keep_own(request& r) noexcept { own_ = &r; }
  // When nothing runs any more. False: it was given away, or it has not ended.
  bool take_own() noexcept { return std::exchange(own_, nullptr) != nullptr; }

  // A request that leaves its sections one after the other, while the thread goes on with each.
  // Null: no more.
  void owe(several_request* r) noexcept { owes_ = r; }
  bool owes() const noexcept { return owes_ != nullptr; }

  // What need not be pinned once flush is allowed. If it is withdrawn then, its awaiter goes back
  // too.
  void add_pinned(stand_in& s) noexcept { pinned_.push(s); }
  // The same. Another owner may have that one pinned at the same time, so it has a link of its own.
  void add_set_aside(stand_in& s) noexcept {
    s.next_unpinned = set_aside_;
    set_aside_ = &s;
  }

  // The same, of the one that is to be asked: once in a batch. It may be set aside, and posted, by
  // others meanwhile.
  void add_asked(stand_in& s) noexcept { asked_ = &s; }

  // `r` got one of its sections and goes on to the next, in deliver.
  void add_entered(request& r) noexcept { entered_.push(r); }
  bool has_entered() const noexcept { return !entered_.empty(); }
  request* take_entered() noexcept { return static_cast<request*>(entered_.pop()); }
  const job* last_entered() const noexcept { return entered_.empty() ? nullptr : entered_.back(); }

  // Gives everything that has an executor to it. Allowed while another request is pending, and
  // pinned if it may be withdrawn, or after the section was left. An executor may run what it gets
  // at once, and that may give away what is left here. Not inline: it is long, and called in
  // many places.
  [[gnu::noinline]] void flush() noexcept {
    unpin();
    while (used_ != 0) {
      const pile oldest = piles_[0];
      --used_;
      for (std::size_t i = 0; i != used_; ++i) piles_[i] = piles_[i + 1];
      send(oldest);
    }
  }

  // Only after the section was left or passed on, or when it closes: runs what has no executor on
  // this thread.
  void deliver() noexcept {
    flush();
    if (has_entered() || !homeless_.empty()) {
      off_this_stack([this] { deliver_here(); });
    }
  }

  // In this scope bodies or coroutines run, which may block the thread. They are not handed back
  // yet.
  class while_bodies_run {
   public:
    explicit while_bodies_run(batch& done) noexcept {
      done.outer_ = std::exchange(here().hands_back, &done);
    }
    ~while_bodies_run() { here().hands_back = here().hands_back->outer_; }
    while_bodies_run(const while_bodies_run&) = delete;
    while_bodies_run& operator=(const while_bodies_run&) = delete;
  };

  // All that this thread has to hand back, before it blocks within a body: the section is in use.
  static void give_away_all() noexcept {
    for (batch* b = here().hands_back; b != nullptr; b = b->outer_) b->give_away();
  }

 private:
  void deliver_here() noexcept {
    if (has_entered()) enter_next_sections(*this);
    if (homeless_.empty()) return;
    // The thread's chain may be one of those just handed back, and none of it is theirs.
    const chain_scope nothing_held{nullptr};
    const on_top of_the_caller(rests_on_held_);
    std::optional<while_bodies_run> may_block;
    if (here().hands_back != this) may_block.emplace(*this);  // it is when a drain ends by closing
    resume_after these;
    while (job* const j = homeless_.pop()) job_access::work_here(*j);  // j may be gone
  }

  // None has entered a section: bodies that may wait for that one are not run here then.
  void give_away() noexcept {
    if (owes_ != nullptr) give_away_owed(*owes_, *this);
    if (request* const r = std::exchange(own_, nullptr)) add(*r);
    flush();
    while (job* const j = homeless_.pop()) {
      executor_ref(thread_pool::shared()).post(*j);  // j may be gone
    }
  }

  using list = fifo<job, &job::next>;

  // All that goes to one executor, or to one of its workers.
  struct pile {
    executor_ref to;
    worker* via;
    list jobs;
    std::size_t n;
  };

  void unpin() noexcept {
    while (job* const j = pinned_.pop()) unpin(stand_in::of(static_cast<request&>(*j)));
    if (stand_in* const s = std::exchange(asked_, nullptr)) unpin(*s);
    while (set_aside_ != nullptr) {
      stand_in& s = *set_aside_;
      set_aside_ = s.next_unpinned;
      unpin(s);
    }
  }
  void unpin(stand_in& s) noexcept {
    if (s.unpin()) add(s.behind());  // else s may be gone
  }

  // Null: the executor may choose.
  static worker* worker_for(const request& r, executor_ref home, bool keep) noexcept {
    const thread_state& t = here();
    return keep || r.back_to == t.as_worker || home != t.pool ? nullptr : r.back_to;
  }

  TURNSTILE_INLINE pile& pile_for(executor_ref to, worker* via) noexcept {
    for (std::size_t i = 0; i != used_; ++i) {
      if (piles_[i].via == via && piles_[i].to == to) return piles_[i];
    }
    if (used_ == piles_.size()) flush();
    return piles_[used_++] = {to, via, {}, 0};
  }

  static void send(const pile& p) noexcept {
    if (p.via != nullptr) {
      hand_back(*p.via, p.jobs.front(), p.jobs.back());  // they may be gone
    } else {
      p.to.post(p.jobs.front(), p.jobs.back(), p.n);  // they may be gone
    }
  }

  std::array<pile, 4> piles_;  // the first `used_`
  std::size_t used_ = 0;
  list homeless_;
  list entered_;
  list pinned_;
  stand_in* set_aside_ = nullptr;
  stand_in* asked_ = nullptr;
  batch* outer_ = nullptr;
  request* own_ = nullptr;
  several_request* owes_ = nullptr;
  const section_core* at_home_of_ = nullptr;
  bool keep_ = false;
  bool keeps_off_ = false;
  bool is_off_ = false;
  bool to_shared_ = false;
  const bool rests_on_held_ = false;
};

}  // namespace turnstile::detail
