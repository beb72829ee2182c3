// keeper.cpp - who keeps a section, and who takes it away. The protocol is in the header.

#include "base/thread_end.hpp"

#include <turnstile/detail/keeper.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <cstdint>
#include <mutex>

namespace turnstile::detail {

namespace {

// Of as many threads at the same time; the others keep nothing. Pages that nobody uses take no
// memory.
constexpr std::uint16_t most_keepers = 1024;

constinit keeper keepers[most_keepers];

// The keepers of threads that have ended, and how many there are in all.
struct spare_keepers {
  mutex guard;
  keeper* list[most_keepers]{};
  std::uint16_t n = 0;
  std::uint16_t made = 0;

  // Not one that somebody's guard is inside of.
  keeper* take() noexcept {
    const std::lock_guard lock(guard);
    for (std::uint16_t i = n; i-- != 0;) {
      keeper* const k = list[i];
      if (k->stays_inside()) continue;
      list[i] = list[--n];
      return k;
    }
    return made == most_keepers ? nullptr : &keepers[made++];
  }
  void put(keeper& k) noexcept {
    const std::lock_guard lock(guard);
    list[n++] = &k;
  }
};

constinit spare_keepers spare;

}  // namespace

keeper& keeper::numbered(std::uint16_t n) noexcept { return keepers[n - 1]; }

std::uint16_t keeper::number() const noexcept {
  return static_cast<std::uint16_t>(this - keepers + 1);
}

bool keeper::may_keep() const noexcept {
  return section_.load(relaxed) == nullptr && word_.load(acquire) % states == free;  // K7
}

void keeper::keep(section_core& s, std::uint64_t executions) noexcept {
  const std::uint64_t epoch = word_.load(relaxed) / states + 1;
  const std::uint64_t now = bodies();
  counts_.store(&s, relaxed);
  since_.store(executions * one_body - now, release);  // K6
  section_.store(&s, relaxed);
  bodies_.store(now + inside, release);   // K5
  word_.store(in(epoch, kept), release);  // K3
}

bool keeper::change(std::uint64_t epoch, state from, state to) noexcept {
  std::uint64_t seen = in(epoch, from);
  return word_.compare_exchange_strong(seen, in(epoch, to), relaxed, relaxed);
}

section_core* keeper::take_back() noexcept {
  const std::uint64_t epoch = word_.load(relaxed) / states;  // only its thread begins another one
  return change(epoch, wanted, taken) ? kept_section() : nullptr;
}

void keeper::forget() noexcept {
  free_word(word_.load(relaxed) / states);
  forget_taken();  // not before: see Dangers
}

void keeper::forget_taken() noexcept {
  section_.store(nullptr, relaxed);
  bodies_.store(ended_bodies(), release);  // K8
}

void keeper::let_out() noexcept {
  free_word(word_.load(relaxed) / states);  // its thread begins another epoch when it is outside
  if (this == here().keeps) forget_taken();
}

bool keeper::stays_inside() noexcept {
  if (!is_inside()) return false;
  if (word_.load(relaxed) % states != free) return true;  // relaxed: may_keep looks again
  forget_taken();
  return false;
}

section_core* keeper::give_up() noexcept {
  section_core* const s = kept_section();
  if (s == nullptr) return nullptr;
  const std::uint64_t epoch = word_.load(relaxed) / states;
  if (change(epoch, kept, given) || change(epoch, wanted, given)) return s;
  forget_taken();
  return nullptr;
}

bool keeper::gives() const noexcept {
  return word_.load(acquire) % states == given;  // K5
}

keeper::sight keeper::seen_by(const section_core& s) noexcept {
  const std::uint64_t word = word_.load(acquire);  // K3
  const std::uint64_t state = word % states;
  if (section_.load(relaxed) != &s || (state != kept && state != wanted)) return {};
  return {this, &s, word / states};
}

bool keeper::want(const sight& seen) noexcept { return seen.by->change(seen.epoch, kept, wanted); }

keeper::revoked keeper::revoke(sight& seen) noexcept {
  keeper& k = *seen.by;
  if (k.word_.load(relaxed) != in(seen.epoch, wanted)) return revoked::over;
  if (&k != here().keeps) heavy_fence();                 // K1
  const std::uint64_t bodies = k.bodies_.load(acquire);  // K2, K5, K8
  if ((bodies & inside) != 0) return revoked::inside;
  seen.executions = (k.since_.load(relaxed) + bodies) / one_body;
  return k.change(seen.epoch, wanted, taken) ? revoked::taken : revoked::over;
}

void keeper::counted(const sight& taken) noexcept { taken.by->free_word(taken.epoch); }

std::uint64_t keeper::executions_of(const section_core& s) const noexcept {
  const std::uint64_t since = since_.load(acquire);              // K6
  const std::uint64_t bodies = bodies_.load(acquire) & ~inside;  // K6
  const bool same = counts_.load(relaxed) == &s && since_.load(relaxed) == since;
  return same ? (since + bodies) / one_body : 0;
}

std::uint32_t keeper::count_turns(const section_core& s, std::uint64_t executions) noexcept {
  const bool alone = candidate_ == &s && executions == candidates_executions_ + bodies_in_a_turn;
  candidate_ = &s;
  candidates_executions_ = executions;
  turns_ = alone ? turns_ + 1 : 0;
  return turns_;
}

keeper* keeper_of_this_thread() noexcept {
  thread_state& mine = here();
  if (mine.keeps != &keeps_nothing) return mine.keeps;
  if (!at_thread_end<&end_keeping>::arm() || !light_fence_is_light()) return nullptr;
  keeper* const k = spare.take();
  if (k != nullptr) mine.turn_to(*k);
  return k;
}

void end_keeping() noexcept {
  thread_state& mine = here();
  keeper& k = *mine.keeps;
  if (&k == &keeps_nothing) return;
  mine.turn_to(keeps_nothing);
  spare.put(k);
}

}  // namespace turnstile::detail
