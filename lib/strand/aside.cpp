// aside.cpp - requests that wait apart until they may run: execute_when.
//
// A ring of stand-ins, oldest first, that only the owner touches. Those withdrawn stay in it until
// the owner looks at them again, or until they are most of it when one more is set aside: where no
// body runs nobody looks. What may run is asked with the frame pinned; what it says holds until
// another body has run, so the first that may run runs next, in the place of the body that has
// ended.
// That body's request is not handed back before, so the pins of those that may not run can be given
// up at once.

#include "executor/or_shared.hpp"
#include "strand/batch.hpp"
#include "strand/gate.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>

#include <cstddef>
#include <utility>

namespace turnstile::detail {

namespace {

// Withdrawn ones in a ring that is not swept, besides one for each that waits. So a sweep takes out
// at least half of what it goes through.
constexpr std::size_t spared_aside = 8;

}  // namespace

void section_core::set_aside(stand_in& s) noexcept {
  extras& e = *given_.load(relaxed);  // made with the stand-in
  stand_in* const oldest = e.oldest_aside;
  if (oldest == nullptr) {
    e.oldest_aside = &s;
    s.older = &s;
    s.younger = &s;
  } else {
    stand_in* const youngest = oldest->older;
    s.older = youngest;
    s.younger = oldest;
    youngest->younger = &s;
    oldest->older = &s;
  }
  s.stands = stand_in::position::aside;
  has_aside_ = true;
  e.ring_aside = e.ring_aside + 1;
  const std::size_t aside = known_stand_ins()->aside.fetch_add(1, relaxed) + 1;
  if (e.ring_aside > 2 * aside + spared_aside) sweep_aside();
  note_waiters();
  if (limited()) limit()->set_aside();  // and its place is about to be finished
}

// The youngest is pinned, so there is one that stays.
void section_core::sweep_aside() noexcept {
  stand_in* s = given_.load(relaxed)->oldest_aside;
  const stand_in* const youngest = s->older;
  while (s != youngest) {
    stand_in& each = *std::exchange(s, s->younger);
    if (!each.is_withdrawn()) continue;
    take_from_aside(each);
    each.pass_over();
  }
}

bool section_core::may_set_aside() const noexcept {
  return !limited() || limit()->has_room_aside();
}

stand_in* section_core::youngest_aside() const noexcept {
  return given_.load(relaxed)->oldest_aside->older;
}

bool section_core::waits_aside() const noexcept {
  return has_aside_ && known_stand_ins()->aside.load(relaxed) != 0;
}

// Before one of them goes: that is when there are most. Not where one is withdrawn: the section may
// be gone then.
void section_core::note_waiters() noexcept {
  stand_in_counts& c = *known_stand_ins();
  c.note(waiting_in_line(ring_.pending(), c) + c.aside.load(relaxed));
}

void section_core::take_from_aside(stand_in& s) noexcept {
  extras& e = *given_.load(relaxed);
  e.ring_aside = e.ring_aside - 1;
  stand_in* const younger = s.younger;
  if (younger == &s) {
    e.oldest_aside = nullptr;
    has_aside_ = false;
    return;
  }
  stand_in* const older = s.older;
  older->younger = younger;
  younger->older = older;
  if (e.oldest_aside == &s) e.oldest_aside = younger;
}

// Pinned then, and no longer set aside.
stand_in* section_core::wake_aside_here(batch& done) noexcept {
  note_waiters();
  extras& e = *given_.load(relaxed);
  stand_in* s = e.oldest_aside;
  const stand_in* const last = s->older;
  for (bool at_end = false; !at_end;) {
    at_end = s == last;
    stand_in* const younger = s->younger;
    if (!s->pin()) {
      take_from_aside(*s);
      s->pass_over();
    } else if (s->may_run()) {
      take_from_aside(*s);
      s->stands = stand_in::position::neither;
      s->is_awake = true;
      known_stand_ins()->aside.fetch_sub(1, relaxed);
      if (limited()) {
        limit()->leave_aside();
        stand_in::let_in(*limit());
      }
      return s;
    } else if (s->unpin()) {
      done.add(s->behind());
    }
    s = younger;
  }
  return nullptr;
}

stand_in* section_core::wake_aside(batch& done) noexcept {
  stand_in* awake = nullptr;
  off_this_stack([&] { awake = wake_aside_here(done); });
  return awake;
}

// Who is off knows of nobody here. Not where one of those is at home: nobody may run there, and
// others may go on.
executor_ref section_core::who_asks(stand_in& s, const batch& done) const noexcept {
  return done.is_off() ? or_shared(executor()) : who_serves(s, done);
}

// A body has ended where the section's may not run, and neither may predicates. True: the section
// was given away with the oldest of those that wait apart, and the place of what has ended with it.
// Whoever withdraws that one gives it away with the next.
bool section_core::ask_on_executor(batch& done) noexcept {
  extras& e = *given_.load(relaxed);
  while (has_aside_) {
    stand_in& s = *e.oldest_aside;
    if (s.pin()) {
      e.asks_there = true;
      const executor_ref to = who_asks(s, done);
      note_sent(to);
      if (s.post(to, queued::last)) return true;
      e.asks_there = false;
      done.add_pinned(s);
    }
    take_from_aside(s);
    s.pass_over();
  }
  return false;
}

bool section_core::asks_there() const noexcept { return given_.load(relaxed)->asks_there; }

// By who has withdrawn that one: it is passed over when its job comes to its turn.
bool section_core::ask_on_executor_again(batch& done) noexcept {
  extras& e = *given_.load(relaxed);
  e.asks_there = false;
  take_from_aside(*e.oldest_aside);
  return ask_on_executor(done);
}

// There, with the one that it was given away with, pinned. What has ended was handed back before,
// so it is this one that keeps the section there until that is left.
request* section_core::next_after_asking(stand_in& s, batch& done) noexcept {
  given_.load(relaxed)->asks_there = false;
  done.add_asked(s);
  stand_in* const awake = wake_aside(done);
  return awake != nullptr ? awake : finish_and_next();
}

// What may not run yet never will.
void section_core::close_aside(batch& done) noexcept {
  extras& e = *given_.load(relaxed);
  while (has_aside_) {
    stand_in& s = *e.oldest_aside;
    take_from_aside(s);
    if (s.pin()) {
      static_cast<void>(s.close());
      done.add_pinned(s);
    } else {
      s.pass_over();
    }
  }
}

// At the section's end: they are all withdrawn.
void section_core::forget_aside() noexcept {
  extras& e = *given_.load(relaxed);
  while (has_aside_) {
    stand_in& s = *e.oldest_aside;
    take_from_aside(s);
    s.pass_over();
  }
}

}  // namespace turnstile::detail
