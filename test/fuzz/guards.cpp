// guards.cpp - sections owned for a block, or until somebody unlocks a slot.

#include "fuzz/interpreter.hpp"

#include <type_traits>

using turnstile::task;

namespace fuzz {

namespace {

void touch(turnstile::section_guard&, long&) {}
void touch(turnstile::synchronized_guard<long>& g, long& visits) {
  expect(++*g == ++visits, "the data of a section was lost");
}

}  // namespace

task<> interpreter::lock(actor a, const instruction& i, bool into_slot) {
  const std::optional<std::size_t> s = choose(a, i);
  if (!s) return yield_once();
  return with_target(*world_.sites[*s],
                     [&](auto& target) { return lock_on(a, i, *s, target, into_slot); });
}

template <class Target>
task<> interpreter::lock_on(actor a, const instruction& i, std::size_t section, Target& target,
                            bool into_slot) {
  asked& q = ask(a, i, section, request::kind::guard);
  std::exception_ptr refused;
  std::optional<decltype(target.lock().await_resume())> guard;
  try {
    late wait(*this, gap(q), target.lock(options(q)));
    guard.emplace(co_await wait);
  } catch (...) {
    refused = std::current_exception();
  }
  if (!guard) {
    if (!went(q, refused)) check_refused(a, q, refused);
    if (i.passes_errors()) std::rethrow_exception(refused);
    co_return;
  }
  expect(q.as != nullptr, "a guard was given that had to be refused");
  model_.granted(*q.as);
  a.holds->push(*q.as);
  check_place(q.resume_on == place::nowhere ? q.home : q.resume_on);
  touch(*guard, visits_[section]);
  if (into_slot) {
    put(i.arg % world_.guards.size(), std::move(*guard), *q.as);
  } else {
    co_await hold(a, q, std::move(*guard));
  }
}

template <class Guard>
task<> interpreter::hold(actor a, asked& q, Guard guard) {
  std::exception_ptr error;
  if (q.how->variant()) {
    // It is held no less, but no longer by this chain: to ask for it would be to wait for ever.
    q.as->let_go = true;
    guard.detach();
    a.floor = std::max(a.floor, static_cast<int>(q.section));
  }
  try {
    co_await run_block(a, q.how->blocks[0]);
  } catch (...) {
    error = std::current_exception();
  }
  give_back(guard, *q.as, q.how->result());
  if (error != nullptr && q.how->passes_errors()) std::rethrow_exception(error);
}

// What the slot had before is unlocked afterwards: others run then, and may use the slot.
template <class Guard>
void interpreter::put(std::size_t slot, Guard guard, request& r) {
  guard_slot& s = world_.guards[slot];
  if (s.owned != nullptr && !may_hand_on(*s.owned)) return give_back(guard, r, 0);
  auto before = std::exchange(s.guard, std::move(guard));
  if (request* const old = std::exchange(s.owned, &r)) {
    std::visit([&](auto& g) { give_back(g, *old, 2); }, before);
  }
}

template <class Guard>
void interpreter::give_back(Guard& guard, request& r, unsigned how) {
  expect(guard.owns_lock(), "an owned guard is empty");
  model_.end(r, {}, depth(), is_elsewhere(r.section));
  model_.drop(r);
  r.let_go = true;
  if (how == 1) {
    const Guard moved = std::move(guard);
  } else if (how == 2) {
    guard = Guard{};
  } else {
    guard.unlock();
  }
  expect(!guard, "an unlocked guard still owns");
}

void interpreter::try_lock(actor a, const instruction& i) {
  const std::size_t slot = i.arg % world_.guards.size();
  const std::size_t s = i.section % world_.sites.size();
  const tried said = predict_try(s);
  std::optional<turnstile::section_guard> guard;
  bool closed = false;
  try {
    guard = world_.sites[s]->section().try_lock();
  } catch (const turnstile::section_closed&) {
    closed = true;
  }
  expect(closed == (said == tried::closed), "try_lock after close");
  expect(guard.has_value() == (said == tried::runs), "try_lock gives an idle section and no other");
  if (!guard) return;
  request& r = model_.accept(s, request::kind::guard);
  model_.granted(r);
  a.holds->push(r);
  put(slot, std::move(*guard), r);
}

void interpreter::unlock_slot(std::size_t slot, unsigned how) {
  guard_slot& s = world_.guards[slot];
  if (s.owned == nullptr || !may_hand_on(*s.owned)) return;
  request& r = *std::exchange(s.owned, nullptr);
  auto taken = std::exchange(s.guard, turnstile::section_guard{});
  std::visit([&](auto& g) { give_back(g, r, how); }, taken);
}

void interpreter::detach_slot(std::size_t slot) {
  guard_slot& s = world_.guards[slot];
  if (s.owned == nullptr) return;
  s.owned->let_go = true;
  std::visit([](auto& g) { g.detach(); }, s.guard);
}

void interpreter::move_slot(const instruction& i) {
  const std::size_t from = i.arg % world_.guards.size();
  const std::size_t to = i.section % world_.guards.size();
  if (from == to || world_.guards[from].owned == nullptr) return;
  request& r = *std::exchange(world_.guards[from].owned, nullptr);
  auto taken = std::exchange(world_.guards[from].guard, turnstile::section_guard{});
  std::visit([&](auto& g) { put(to, std::move(g), r); }, taken);
}

bool interpreter::owned_slots() const {
  for (const guard_slot& s : world_.guards) {
    if (s.owned != nullptr) return true;
  }
  return false;
}

bool interpreter::may_hand_on(const request& r) const {
  return !needs_thread(r.section) || model_.length(r.section) <= 2;  // two: one goes on, here
}

}  // namespace fuzz
