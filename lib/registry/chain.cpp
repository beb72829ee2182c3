// chain.cpp - walking and changing the chain of holds. The protocol is in detail/chain.hpp.

#include "base/thread_end.hpp"

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/hold.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/wait_graph.hpp>
#include <turnstile/errors.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace turnstile::detail {

namespace {

const chain_frame* outermost_holder(const chain_frame* top, const section_core& s) noexcept {
  const chain_frame* found = nullptr;
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    if (f->section == &s && !gone(*f)) found = f;
  }
  return found;
}

const chain_frame* find_holder(const section_core& s) noexcept {
  if (here().chain == nullptr) return nullptr;
  const chain_frame* const top = innermost_frame();
  if (top == nullptr || (top->mask & mask_of(&s)) == 0) return nullptr;
  return outermost_holder(top, s);
}

std::vector<held_step> path_from(const chain_frame& holder, const section_core& s, const site& at) {
  std::vector<held_step> path{step_of(s.label(), at)};
  for (const chain_frame* f = here().chain;; f = f->parent) {
    if (holds_section(*f)) path.push_back(step_of(label_of(*f), *f->at));
    if (f == &holder) break;
  }
  std::ranges::reverse(path);
  return path;
}

// Takes what is gone off `at`, where a share is kept. True: there was something.
template <class Frame>
bool take_gone_off(Frame& at) noexcept {
  bool any = false;
  for (; at != nullptr && gone(*at); any = true) {
    chain_frame* const below = share(at->parent);
    drop(at);
    at = below;
  }
  return any;
}

// A guard's frame, and nobody has a share but the guard and the chain. Whether it is gone is asked
// last: the guard's share could be anybody's then. So could that of what a copy stands for.
bool is_only_here(const chain_frame* f) noexcept {
  if (!is_hold(f)) return false;
  const auto& h = static_cast<const hold_frame&>(*f);
  return !h.is_copy && h.shares.load(acquire) == 2 && !gone(h);  // E1
}

// How many guards' frames whoever puts another one on top looks through: who has many more would
// else look through all of them each time.
constexpr int most_looked_through = 16;

// Not further down: a thousand guards may be let go in the order in which they were taken.
bool is_near(const chain_frame* top, const hold_frame& h) noexcept {
  return top == &h || (is_only_here(top) && top->parent == &h);
}

// Where something was taken out of what lies from `top` down to `end`, and `there` is still there.
void narrow_masks(chain_frame* top, const chain_frame* end, chain_mask there) noexcept {
  if (end != nullptr) there |= end->mask;
  for (chain_frame* f = top; f != end; f = f->parent) f->mask &= there;
}

// Null: none of its own.
const std::stop_token* stop_of(const uncounted_frame& f) noexcept {
  return f.section != nullptr ? nullptr : static_cast<const stop_frame&>(f).stop;
}

const std::stop_token* stop_of(const chain_frame& f) noexcept {
  return is_hold(&f) ? &static_cast<const hold_frame&>(f).stop
                     : stop_of(static_cast<const uncounted_frame&>(f));
}

// The innermost frame with a token that can be stopped. What a copy stands for may have ended.
const chain_frame* stop_around(const chain_frame* top) noexcept {
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    const std::stop_token* const stop = stop_of(*f);
    if (stop != nullptr && stop->stop_possible() && !gone(*f)) return f;
  }
  return nullptr;
}

section_name name_of(const section_core& s) noexcept { return {s.name(), s.container(), s.id()}; }

// A new one. Most sections have no name, and then there is nothing to copy.
void set_name(hold_frame& h, const section_name& n) {
  if (!n.name.empty()) h.name = n.name;
  if (!n.container.empty()) h.container = n.container;
  h.number = n.number;
}

// A thread that ends with a guard's frame on top gives its share back. Until then it holds that
// section, whoever asks.
void end_holds() noexcept {
  here().keeps_spare_hold = false;
  drop(here().chain);
  here().chain = nullptr;
  delete std::exchange(here().spare_hold, nullptr);
}
using end_of_holds = after_thread_locals<&end_holds>;

// True: this thread may keep one, and frees it in the end.
bool may_keep_spare() noexcept {
  if (TURNSTILE_RECYCLES_FRAMES == 0 || !end_of_holds::arm()) return false;
  here().keeps_spare_hold = true;
  return true;
}

}  // namespace

bool gone(const chain_frame& f) noexcept {
  if (!is_hold(&f)) return false;
  const auto& h = static_cast<const hold_frame&>(f);
  return h.let_go.load(relaxed) || (h.follows != nullptr && h.follows->let_go.load(relaxed));  // E2
}

section_name name_of(const chain_frame& f) noexcept {
  if (!is_hold(&f)) return name_of(*f.section);
  const auto& h = static_cast<const hold_frame&>(f);
  return {h.name, h.container, h.number};
}

// Of a copy the scope may be gone.
std::string_view scope_called(const chain_frame& f) noexcept {
  if (is_hold(&f)) return static_cast<const hold_frame&>(f).called;
  return is_member(&f) ? static_cast<const member_frame&>(f).scope->called() : "async_scope";
}

std::string label_of(const chain_frame& f) {
  if (f.section == nullptr) return std::string(scope_called(f));
  const section_name called = name_of(f);
  return label_of(called.name, called.number);
}

held_step step_of(std::string label, const site& at) {
  return {{std::move(label), at.where}, std::string(at.name())};
}

chain_frame* innermost_frame() noexcept {
  chain_top& top = here().chain;
  take_gone_off(top);
  return top;
}

chain_frame* without_gone() noexcept {
  chain_frame* const top = innermost_frame();
  chain_frame* f = top;
  chain_mask there = 0;
  bool any = false;
  for (int n = 0; n != most_looked_through && is_only_here(f); ++n, f = f->parent) {
    if (take_gone_off(f->parent)) any = true;
    there |= mask_of(f->section);
  }
  if (any) narrow_masks(top, f, there);
  return top;
}

bool belongs_to(const chain_frame* f, const chain_frame* base) noexcept {
  while (f != base) {
    if (base == nullptr || !gone(*base)) return false;
    base = base->parent;
  }
  return true;
}

std::stop_token any_surrounding_stop(const chain_frame* top) noexcept {
  const chain_frame* const f = stop_around(top);
  return f == nullptr ? std::stop_token() : *stop_of(*f);
}

std::stop_token ask_for_surrounding_stop(const chain_frame* top) noexcept {
  const chain_frame* const f = stop_around(top);
  if (f == nullptr) return {};
  // Not through a copy: its scope may be ending.
  if (is_member(f)) static_cast<const member_frame*>(f)->scope->make_stoppable();
  return *stop_of(*f);
}

bool is_stopped_around(const chain_frame* top) noexcept {
  const chain_frame* const f = stop_around(top);
  return f != nullptr && stop_of(*f)->stop_requested();
}

void share_hold(chain_frame& top) noexcept {
  // Relaxed: the caller has a share already, so the frame cannot go away meanwhile.
  static_cast<hold_frame&>(top).shares.fetch_add(1, relaxed);
}

void drop_hold(chain_frame& top) noexcept {
  chain_frame* f = &top;
  while (is_hold(f)) {
    hold_frame* const h = static_cast<hold_frame*>(f);
    if (h->shares.fetch_sub(1, acq_rel) != 1) return;  // E1
    f = h->parent;
    if (h->follows != nullptr) drop_hold(*h->follows);  // a hold that follows nothing
    delete h;
  }
}

namespace {

mutex copying;

// A share for the caller, and none yet for anybody else. Takes over the share that `below` stands
// for.
hold_frame* copy_of(const chain_frame& f, chain_frame* below) try {
  auto c = std::make_unique<hold_frame>();
  c->section = f.section;
  if (f.section != nullptr) set_name(*c, name_of(f));
  c->parent = below;
  c->mask = f.mask;
  c->place = *f.at;
  const bool same_request = below != nullptr && f.parent->at == f.at;
  c->at = same_request ? below->at : &c->place;
  c->is_copy = true;
  return c.release();
} catch (...) {
  drop(below);
  throw;
}

hold_frame* copy_of(hold_frame& h, chain_frame* below) {
  hold_frame* const c = copy_of(static_cast<const chain_frame&>(h), below);
  c->follows = &h;
  share_hold(h);
  return c;
}

hold_frame* copy_of(uncounted_frame& f, chain_frame* below) {
  f.copy = copy_of(static_cast<const chain_frame&>(f), below);
  if (f.section != nullptr) f.section->note_counted_frame();
  if (is_member(&f)) {
    f.copy->scope = static_cast<member_frame&>(f).scope;
    f.copy->called = f.copy->scope->called();
  }
  if (const std::stop_token* const stop = stop_of(f)) f.copy->stop = *stop;
  share_hold(*f.copy);
  return f.copy;
}

// What there is already, and then it is of everything below as well. Null: nothing.
chain_frame* copy_there(chain_frame& f) noexcept {
  if (!is_hold(&f)) return static_cast<uncounted_frame&>(f).copy;
  return static_cast<hold_frame&>(f).is_copy ? &f : nullptr;
}

// From the outermost one without a copy upwards. Not by recursion: a fiber's stack is small.
chain_frame* kept_copy(chain_frame* top) {
  std::vector<chain_frame*> uncopied;
  chain_frame* copy = nullptr;
  for (chain_frame* f = top; f != nullptr && copy == nullptr; f = f->parent) {
    copy = copy_there(*f);
    if (copy == nullptr) uncopied.push_back(f);
  }
  share(copy);
  for (; !uncopied.empty(); uncopied.pop_back()) {
    chain_frame* const f = uncopied.back();
    copy = is_hold(f) ? copy_of(static_cast<hold_frame&>(*f), copy)
                      : copy_of(static_cast<uncounted_frame&>(*f), copy);
  }
  return copy;
}

}  // namespace

chain_frame* keep(chain_frame* top) {
  const std::lock_guard lock(copying);  // E3
  return kept_copy(top);
}

chain_frame* try_keep(chain_frame* top) noexcept try {
  return keep(top);
} catch (const std::bad_alloc&) {
  return nullptr;
}

void end_copy(uncounted_frame& f) noexcept { let_go_anywhere(*f.copy); }

const chain_frame* innermost_held() noexcept {
  const chain_frame* f = innermost_frame();
  while (f != nullptr && !holds_section(*f)) f = f->parent;
  return f;
}

void refuse_if_held(const section_core& s, const site& at) {
  if (const chain_frame* const holder = find_holder(s)) {
    throw reentry_error(path_from(*holder, s, at));
  }
}

void refuse_wait_if_held(const section_core& s, const site& at) {
  if (const chain_frame* const holder = find_holder(s)) {
    throw deadlock_error(path_from(*holder, s, at));
  }
}

hold_frame* new_hold(const section_core& s) {
  end_of_holds::arm();
  auto h = std::make_unique<hold_frame>();
  h->section = &s;
  set_name(*h, name_of(s));
  h->at = &h->place;
  h->shares.store(2, relaxed);
  s.note_counted_frame();
  return h.release();
}

void drop_unused(hold_frame& h) noexcept {
  thread_state& t = here();
  if (t.keeps_spare_hold && t.spare_hold == nullptr) {
    t.spare_hold = &h;
  } else {
    delete &h;
  }
}

void let_go_anywhere(hold_frame& h) noexcept {
  thread_state& t = here();
  // Nobody else can share a copy either: what it stands for is just ending.
  if (is_ours_alone(t, h)) {
    take_off(t, h);
    if (h.is_copy || !may_keep_spare()) {
      delete &h;
    } else {
      delete std::exchange(t.spare_hold, &h);
    }
    return;
  }
  h.let_go.store(true, relaxed);  // E2
  if (is_near(t.chain, h)) without_gone();
  drop_hold(h);
}

chain_frame* cut_holds(chain_frame* top, const chain_frame* base) noexcept {
  chain_frame* lowest = nullptr;
  for (chain_frame* f = top; !belongs_to(f, base) && is_hold(f); f = f->parent) {
    lowest = f;
  }
  if (lowest == nullptr) {
    drop(top);
    return nullptr;
  }
  drop(std::exchange(lowest->parent, nullptr));
  return top;
}

void adopt_holds(chain_frame& top) noexcept {
  end_of_holds::arm();
  chain_frame* lowest = &top;
  // An awaiter that resumes within its await_suspend leaves the coroutine's chain on the thread.
  bool there = lowest == here().chain;
  while (lowest->parent != nullptr) {
    lowest = lowest->parent;
    there = there || lowest == here().chain;
  }
  if (there) {
    drop(std::exchange(here().chain, &top));
    return;
  }
  without_gone();
  lowest->parent = std::exchange(here().chain, &top);
  const chain_mask below = lowest->parent == nullptr ? 0 : lowest->parent->mask;
  for (chain_frame* f = &top;; f = f->parent) {
    f->mask =
        (f->mask & ~(stoppable | alternative)) | below;  // what else it was below, it has left
    if (f == lowest) break;
  }
}

}  // namespace turnstile::detail
