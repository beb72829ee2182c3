// short_wait.cpp - waiting in place for one short body, instead of in line.
//
// Who is queued suspends, is served by another thread and comes back: hundreds of instructions and
// up to 15 cache lines from core to core. A short body is over before that. So where one body is
// inside and nobody is in line, the caller looks at the word for a while before it arrives. It has
// not been accepted yet, so this changes no order: who arrives meanwhile comes first, as if the
// caller had asked later.
//
// Only where threads do something else between two bodies, which is measured: where they do not,
// one thread had better run all bodies (pace.hpp), and being queued brings that about. And seldom
// where it was in vain: the bodies are long, or whoever is inside sleeps. A thread that has not met
// anybody for a while does not even look (thread_state::contended): the look alone is 4 % of an
// uncontended execute (bench/uncontended, turnstile_not_kept).
//
// Progress  bounded: most_waiting, and one look after it
// Source    Karlin, Manasse, McGeoch, Owicki (1990): who waits as long as the alternative costs
//           loses at most half

#include "strand/short_wait.hpp"

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstdint>

namespace turnstile::detail {

namespace {

using std::chrono::nanoseconds;

// Less than being queued costs both threads together. Not all of that: bodies of a microsecond
// would end within it now and then, and who stays in place makes those in its thread's queue wait
// (bench, oversubscribed, 2 threads, p99.9: 0.24 ms, with 500 ns 0.26 and with 1000 ns 0.41, for 1
// % of the time; think with a body of 250 ns, 64 coroutines, 0.97 of the time with 1000 ns).
constexpr nanoseconds most_waiting = limit(nanoseconds(250), nanoseconds(0));

// How long this thread is away between two bodies, on average; once in a turn of bodies it is
// measured.
class absence {
 public:
  void begin(std::uint32_t bodies) noexcept {
    begun_ = steady_clock::now();
    bodies_ = bodies;
  }
  void end(std::uint32_t bodies) noexcept {
    if (bodies != bodies_) return;
    const nanoseconds took = steady_clock::now() - begun_;
    mean_ += (std::min(took, longest) - mean_) / 4;
  }
  // Longer than a transfer of the section's lines takes: two threads are faster than one.
  bool is_long() const noexcept { return mean_ > nanoseconds(100); }

 private:
  static constexpr nanoseconds longest{1000};  // or it was interrupted

  steady_clock::time_point begun_{};
  nanoseconds mean_{0};
  std::uint32_t bodies_ = 0;
};

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

constinit thread_local absence this_absence;

experience& experience_with(const section_core& s) noexcept {
  static constinit thread_local std::array<experience, 64> all{};
  return all[std::bit_cast<std::uintptr_t>(&s) / sizeof(section_core) % all.size()];
}

}  // namespace

void time_absence(thread_state& t) noexcept {
  this_absence.begin(t.bodies());
  t.is_timed = true;
}

void section_core::await_shortly(thread_state& t) noexcept {
  if (t.is_timed) {
    t.is_timed = false;
    this_absence.end(t.bodies());
  }
  const std::size_t found = ring_.pending();
  if (found == 0) return;
  t.contended = turns_after_contention;
  experience& before = experience_with(*this);
  if (found != 1 || !this_absence.is_long() || before.is_bad() || ring_.is_kept()) return;
  const steady_clock::time_point begun = steady_clock::now();
  do {
    const std::size_t inside = ring_.pending();
    if (inside == 0) before.forget();
    if (inside != 1) return;
    pause();
  } while (steady_clock::now() - begun < most_waiting);
  before.note_in_vain();
}

}  // namespace turnstile::detail
