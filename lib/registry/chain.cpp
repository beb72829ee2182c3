// chain.cpp - walking and changing the chain of holds. See detail/chain.hpp.
//
// Edges  E1  drop    shares.fetch_sub(acq_rel) in drop_hold -> the last one frees
//        E2  let go  let_go is relaxed: who finds a hold let go has still to ask for the section, and
//            gets what its owner did from there (W1 of ticket_word.hpp)

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/errors.hpp>

#include <algorithm>
#include <utility>

namespace turnstile::detail {

namespace {

bool gone(const chain_frame& f) noexcept {
  return is_hold(&f) && static_cast<const hold_frame&>(f).let_go.load(relaxed);  // E2
}

// Takes holds that were let go off the top of the calling chain.
chain_frame* prune() noexcept {
  chain_frame*& top = here().chain;
  while (top != nullptr && gone(*top)) {
    chain_frame* const below = share(top->parent);
    drop(top);
    top = below;
  }
  return top;
}

const chain_frame* outermost_holder(const chain_frame* top, const section_core& s) noexcept {
  const chain_frame* found = nullptr;
  for (const chain_frame* f = top; f != nullptr; f = f->parent) {
    if (f->section == &s && !gone(*f)) found = f;
  }
  return found;
}

const chain_frame* find_holder(const section_core& s) noexcept {
  if (here().chain == nullptr) return nullptr;
  const chain_frame* const top = prune();
  if (top == nullptr || (top->mask & mask_of(&s)) == 0) return nullptr;
  return outermost_holder(top, s);
}

path_step step(const section_core& s, const site& at) { return {s.label(), at.where}; }

std::vector<path_step> path_from(const chain_frame& holder, const section_core& s, const site& at) {
  std::vector<path_step> path{step(s, at)};
  for (const chain_frame* f = here().chain;; f = f->parent) {
    if (!gone(*f)) path.push_back(step(*f->section, *f->at));
    if (f == &holder) break;
  }
  std::ranges::reverse(path);
  return path;
}

// `f` is the base, or what is left of it where its top was let go.
bool belongs_to(const chain_frame* f, const chain_frame* base) noexcept {
  while (f != base) {
    if (base == nullptr || !gone(*base)) return false;
    base = base->parent;
  }
  return true;
}

// A thread that ends with a guard's frame on top gives its share back.
struct last_words {
  ~last_words() {
    drop(here().chain);
    here().chain = nullptr;
  }
};

}  // namespace

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
    delete h;
  }
}

const chain_frame* innermost_held() noexcept { return prune(); }

bool chain_holds(const section_core& s) noexcept { return find_holder(s) != nullptr; }

void refuse_if_held(const section_core& s, const site& at) {
  if (const chain_frame* const holder = find_holder(s)) {
    throw reentry_error(path_from(*holder, s, at));
  }
}

void refuse_wait_if_held(const section_core& s, const site& at) {
  if (const chain_frame* const holder = find_holder(s)) {
    std::vector<path_step> path = path_from(*holder, s, at);
    throw deadlock_error(std::move(path));
  }
}

hold_frame* make_hold(const section_core& s, const site& at) {
  static thread_local last_words at_thread_end;
  static_cast<void>(at_thread_end);
  hold_frame* const h = new hold_frame{};
  h->section = &s;
  h->place = at;
  h->at = &h->place;
  return h;
}

void push_hold(hold_frame& h) noexcept {
  chain_frame*& top = here().chain;
  h.parent = prune();  // the thread's share of the old top becomes the frame's
  h.mask = mask_of(h.section) | (top == nullptr ? 0 : top->mask);
  share_hold(h);
  top = &h;
}

void let_go(hold_frame& h) noexcept {
  h.let_go.store(true, relaxed);  // E2
  if (here().chain == &h) prune();
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
  lowest->parent = std::exchange(here().chain, &top);
  const std::uint32_t below = lowest->parent == nullptr ? 0 : lowest->parent->mask;
  for (chain_frame* f = &top;; f = f->parent) {
    f->mask |= below;
    if (f == lowest) break;
  }
}

}  // namespace turnstile::detail
