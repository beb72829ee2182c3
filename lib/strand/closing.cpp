// closing.cpp - a section's orderly end: the last place in its line, and those who wait for that.

#include "strand/batch.hpp"
#include "strand/extras.hpp"
#include "strand/gate.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/trampoline.hpp>

#include <optional>
#include <utility>

namespace turnstile::detail {

// All that came before has ended when close is done, and what this thread has to hand back comes
// first; another thread that passed the section on may still be handing back its own. Coroutines
// that would go on within this call do so after it, for they may wait for the end.
void section_core::finish_closing(batch& done) noexcept {
  const on_top of_the_caller(done.rests_on_held());
  std::optional<trampoline> after;
  if (here().bounce == nullptr) after.emplace();
  if (has_aside_) close_aside(done);
  done.deliver();
  if (limited() && !refuse_outside()) return;  // this may be gone
  finish_close(way_back::at_home);
}

// True: nobody is outside any more, nor on the way of letting somebody in.
bool section_core::refuse_outside() noexcept {
  gate& g = *limit();
  bool left = false;
  bool closes = false;
  for (stand_in* s = g.first_to_refuse(left); s != nullptr; s = g.next_to_let_in(closes)) {
    let_in(*s);
  }
  return !left;
}

void section_core::prepare_closing() const { made(made(given_).closing); }

// Here and below it is known to be there: the calling thread has prepared it, or was given the
// request.
void section_core::serve_closing(place p) noexcept {
  static_cast<void>(serve_first(p, *given_.load(relaxed)->closing.load(relaxed), nullptr));
}

void section_core::publish_closing(place p) noexcept {
  request& r = *given_.load(relaxed)->closing.load(relaxed);
  if (publish_in_ring(r, p, true) != after_publish::take_over) return;
  if (request* const next = next_awaited()) {
    batch done(rests_on_held());
    go_on(next, done);
  }
}

bool section_core::add_closer(stand_in& s) noexcept {
  atomic<stand_in*>& list = given_.load(relaxed)->closers;
  stand_in* seen = list.load(acquire);
  do {
    if (seen == closed_list) return false;
    s.younger = seen;
  } while (!list.compare_exchange_weak(seen, &s, release, acquire));
  return true;
}

bool section_core::has_closed() const noexcept {
  const extras* const e = given();
  return e != nullptr && e->closers.load(acquire) == closed_list;
}

// For the graph they are all over before one of them goes on. The section may go with the first.
void section_core::finish_close(way_back of_closers) noexcept {
  atomic<stand_in*>& list = given_.load(relaxed)->closers;
  stand_in* const all = list.exchange(closed_list, acq_rel);
  stand_in* still_there = nullptr;
  for (stand_in* s = all; s != nullptr;) {
    stand_in* const next = s->younger;
    if (s->pin()) {
      s->tell_over();
      s->younger = still_there;
      still_there = s;
    } else {
      s->pass_over();
    }
    s = next;
  }
  while (still_there != nullptr) {
    stand_in& s = *std::exchange(still_there, still_there->younger);  // s may be gone after this
    request& who = s.behind();
    if (s.take()) {
      if (of_closers == way_back::at_home) {
        resume_at_home(who);
      } else {
        batch::post_back(who);
      }
      continue;
    }
    s.pass_over();
    if (s.unpin()) batch::post_back(who);
  }
}

}  // namespace turnstile::detail
