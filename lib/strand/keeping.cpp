// keeping.cpp - a section that stays with the thread that comes back to it. The protocol is in
// keeper.hpp.

#include "strand/batch.hpp"
#include "strand/short_wait.hpp"

#include <turnstile/detail/keeper.hpp>
#include <turnstile/detail/section_core.hpp>

#include <algorithm>

namespace turnstile::detail {

// By the owner, for the last time as what it was kept for; or for whoever takes it: with what its
// keeper has counted there are so many.
void section_core::count_kept(std::uint64_t executions) noexcept {
  const std::uint64_t before = executions_.load(relaxed);
  executions_.store(executions, relaxed);
  if (executions - before < keeping::worth_it) {
    patience_ =
        static_cast<std::uint8_t>(std::min<unsigned>(patience_ + 2u, keeping::most_patience));
  } else if (patience_ != 0) {
    patience_ = static_cast<std::uint8_t>(patience_ - 1);
  }
}

void section_core::leave_or_keep(place p) noexcept {
  if (!is_coming_back() || !keep(p)) {
    if (!ring_.leave(p, mine_)) serve_next();
  }
  if (thread_state& t = here(); t.contended != 0) {  // the section may be gone
    --t.contended;
    time_absence(t);
  }
}

// What the thread keeps already it gives up first, and this one is kept the next time.
bool section_core::is_coming_back() noexcept {
  if (special_.load(relaxed) != 0 || !keeping::is_on) return false;
  keeper* const k = keeper_of_this_thread();
  if (k == nullptr || k->stays_inside()) return false;
  // The line of its patience is not touched by who comes but now and then.
  const std::uint32_t turns = k->count_turns(*this, executions_.load(relaxed));
  if (turns == 0 || turns < 1u << patience_) return false;
  if (k->keeps_something()) {
    give_up_kept();
    return false;
  }
  return k->may_keep();
}

// False: somebody has come meanwhile, or this one has taken the section from its keeper.
bool section_core::keep(place p) noexcept {
  if (section_ring::found_any(p)) return false;  // the word is not what keep would begin with
  keeper& k = *here().keeps;
  k.keep(*this, executions_.load(relaxed));
  kept_by_.store(k.number(), relaxed);
  if (!ring_.keep(p, mine_)) {
    k.forget();  // the caller is the owner in any case
    return false;
  }
  const bool is_special = special_.load(seq_cst) != 0;  // K4
  if (!k.leave(k.ended_bodies())) {
    stop_keeping(k);
  } else if (is_special) {
    give_up_kept();
  }
  return true;
}

// The calling thread goes on with it, as at any end.
void section_core::stop_keeping(keeper& k) noexcept {
  section_core* const s = k.take_back();
  if (s == nullptr) return k.forget_taken();
  s->count_kept(k.executions());
  k.forget();
  if (!s->ring_.let_go(s->mine_)) s->serve_next();
}

// The queue knows it then, as if it had never been kept. Its thread need not notice.
void section_core::hold_kept(keeper& by) noexcept {
  count_kept(by.executions());
  ring_.hold_kept(mine_);
  by.let_out();
}

void section_core::release_kept_elsewhere(keeper& by) noexcept {
  hold_kept(by);
  release_hold();
}

// It is about something else, so who has come is served elsewhere.
void section_core::give_up_kept() noexcept {
  keeper& k = *here().keeps;
  section_core* const s = k.give_up();
  if (s == nullptr) return;
  s->count_kept(k.executions());
  s->let_go_kept();
  k.forget();
}

void section_core::let_go_kept(bool to_shared) noexcept {
  if (!ring_.let_go(mine_)) send_next(to_shared);
}

// After a look at the ring that showed it kept.
keeper::sight section_core::seen_kept() const noexcept {
  return keeper::numbered(kept_by_.load(relaxed)).seen_by(*this);
}

// True: the caller owns the section, and no keeper has it any more. It may be gone otherwise.
bool section_core::take_from(keeper::sight& seen) noexcept {
  if (!seen || !keeper::want(seen) || keeper::revoke(seen) != keeper::revoked::taken) return false;
  count_kept(seen.executions);
  keeper::counted(seen);
  return true;
}

after_publish section_core::publish_in_ring(request& r, place p, bool last) noexcept {
  ++here().to_be_served;
  if (section_ring::found_kept(p)) [[unlikely]]
    return publish_at_kept(r, p, last);
  return last ? ring_.publish_last(r, p, mine_) : ring_.publish(r, p, mine_);
}

after_publish section_core::publish_at_kept(request& r, place p, bool last) noexcept {
  keeper::sight seen = seen_kept();
  if (seen && seen.by->is_inside()) ring_.note_waiting_behind(p);
  const after_publish what = last ? ring_.publish_last(r, p, mine_) : ring_.publish(r, p, mine_);
  if (what != after_publish::nothing || !take_from(seen)) return what;
  return ring_.let_go(mine_) ? what : after_publish::take_over;  // never idle: `r` is in line
}

// By who comes first: kept and not used is idle.
arrival section_core::arrive_at_kept() noexcept {
  keeper::sight seen = seen_kept();
  if (!seen || seen.by->is_inside() || !take_from(seen)) return arrival::queued;
  static_cast<void>(ring_.let_go(mine_));  // never idle: who comes is in line
  return arrival::owner;
}

void section_core::take_away_kept(bool to_shared) noexcept {
  keeper::sight seen = seen_kept();
  if (take_from(seen)) let_go_kept(to_shared);
}

// It is idle if its keeper is not inside.
arrival section_core::try_arrive_kept(place& p) noexcept {
  take_away_kept();
  return ring_.try_arrive(p);
}

// Who is inside breaks the contract, which the caller finds.
void section_core::end_kept() noexcept {
  while (ring_.is_kept()) {
    keeper::sight seen = seen_kept();
    if (seen) static_cast<void>(keeper::want(seen));  // who wanted it before may be on the way yet
    switch (seen ? keeper::revoke(seen) : keeper::revoked::over) {
      case keeper::revoked::taken:
        keeper::counted(seen);
        static_cast<void>(ring_.let_go(mine_));
        return;
      case keeper::revoked::inside: return;
      case keeper::revoked::over: pause();  // it is just being given up
    }
  }
  if (const std::uint16_t n = kept_by_.load(relaxed); n != 0) {
    // This thread's own: below this call, in a post that ran the job at once, and it does not touch
    // the section again.
    const keeper& k = keeper::numbered(n);
    while (k.gives() && &k != here().keeps) pause();
  }
}

// Only to be shown, both.
std::uint64_t section_core::executions() const noexcept {
  const std::uint64_t counted = executions_.load(relaxed);
  const std::uint16_t n = kept_by_.load(relaxed);
  return n == 0 ? counted : std::max(counted, keeper::numbered(n).executions_of(*this));
}

// A guard that goes on to hold it goes out when the bit is gone.
bool section_core::is_kept_unused() const noexcept {
  return ring_.is_kept() && !keeper::numbered(kept_by_.load(relaxed)).is_inside() &&
         ring_.is_kept();
}

}  // namespace turnstile::detail
