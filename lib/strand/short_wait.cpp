// short_wait.cpp - waiting in place for one short body, instead of in line.
//
// Who is queued suspends, is served by another thread and comes back: hundreds of instructions and up to 15 cache
// lines from core to core. A short body is over before that. So where one body is inside and nobody is in line, the
// caller looks at the word for a while before it arrives. It has not been accepted yet, so this changes no order: who
// arrives meanwhile comes first, as if the caller had asked later.
//
// Not where bodies follow each other on this thread with little between them (pace.hpp): then one thread had better
// run them all. And seldom where it was in vain: the bodies are long, or whoever is inside sleeps. A thread that has not
// met anybody for a while does not even look (thread_state::contended): the look alone is 4 % of an uncontended
// execute (bench/uncontended, turnstile_not_kept).
//
// Progress  bounded: one clock's span, and one look after it
// Source    Karlin, Manasse, McGeoch, Owicki (1990): who waits as long as the alternative costs loses at most half

#include "executor/pace.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <array>
#include <bit>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

namespace {

using std::chrono::nanoseconds;

// About what being queued costs both threads together (bench/think).
constexpr nanoseconds most_waiting = limit(nanoseconds(500), nanoseconds(0));

// What this thread has learnt of a section. Two that share a place only learn more slowly.
class experience {
 public:
  bool is_bad() noexcept { return in_a_row_ == most_in_a_row && ++looked_ % seldom != 0; }
  void forget() noexcept { in_a_row_ = 0; }
  void note_in_vain() noexcept {
    if (in_a_row_ != most_in_a_row) ++in_a_row_;
  }

 private:
  static constexpr std::uint8_t most_in_a_row = 3;
  static constexpr std::uint8_t seldom = 32;

  std::uint8_t in_a_row_ = 0;  // waits in vain
  std::uint8_t looked_ = 0;
};

experience& experience_with(const section_core& s) noexcept {
  static constinit thread_local std::array<experience, 64> all{};
  return all[std::bit_cast<std::uintptr_t>(&s) / sizeof(section_core) % all.size()];
}

}  // namespace

void section_core::await_shortly() noexcept {
  thread_state& t = here();
  t.contended = turns_after_contention;
  experience& before = experience_with(*this);
  if (before.is_bad() || ring_.pending() != 1 || ring_.is_kept()) return;
  const steady_clock::time_point begun = steady_clock::now();
  if (this_pace.look(t.bodies, begun)) return;
  do {
    pause();
    const std::size_t inside = ring_.pending();
    if (inside == 0) before.forget();
    if (inside != 1) return;
  } while (steady_clock::now() - begun < most_waiting);
  before.note_in_vain();
}

}  // namespace turnstile::detail
