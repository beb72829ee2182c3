// short_wait.cpp - waiting in place for one short body, instead of suspended.
//
// Who is queued suspends, is served by another thread and comes back: hundreds of instructions and
// up to 15 cache lines from core to core. A short body is over before that. So who arrives where
// one body is inside and nobody is in line does not publish its request yet, and looks at its own
// cell for a while. The owner that has left finds that request missing and parks the section for
// it, as for any that is late, and the caller is inside (take_own of ticket_ring.hpp). It has its
// place in line all the while.
//
// Only where threads do something else between two bodies, which is measured: where they do not,
// one thread had better run all bodies (pace.hpp), and being queued brings that about. And seldom
// where it was in vain: the bodies are long, or whoever is inside sleeps.
//
// Progress  bounded: most_waiting, and one look at the clock. A thread that the system stops
//           meanwhile holds up who came later, as one does between arrive and publish
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

// Less than being queued costs both threads together. Not all of that: who waits in vain has
// waited, and who stays in place makes those in its thread's queue wait (bench/tried.md, Think).
constexpr nanoseconds most_waiting = limit(nanoseconds(150), nanoseconds(0));

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
  bool is_long() const noexcept { return mean_ > limit(nanoseconds(100), nanoseconds(-1)); }

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
  static constexpr std::uint8_t seldom = limit(std::uint8_t{32}, std::uint8_t{1});

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

void note_absence(thread_state& t) noexcept {
  t.is_timed = false;
  this_absence.end(t.bodies());
}

arrival section_core::await_one_body(place p, thread_state& t) noexcept {
  t.contended = turns_after_contention;
  if (!ring_.is_next(p) || !this_absence.is_long() || special()) return arrival::queued;
  experience& before = experience_with(*this);
  if (before.is_bad()) return arrival::queued;
  const steady_clock::time_point begun = steady_clock::now();
  do {
    if (ring_.take_own(p, mine_)) {
      before.forget();
      if (!has_tail_) return arrival::owner;
      park_again();  // the request has to wait for the device
      return arrival::queued;
    }
    pause();
  } while (steady_clock::now() - begun < most_waiting);
  before.note_in_vain();
  return arrival::queued;
}

}  // namespace turnstile::detail
