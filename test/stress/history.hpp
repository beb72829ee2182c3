// history.hpp - what became of every request of a round, and whether one section after the other
// could have done that.
//
// A body is logged by plain variables that only its section protects: a body too many at a time
// shows in them, and to the thread sanitizer. Stamps are taken outside of bodies.
#pragma once

#include "stress/dice.hpp"

#include <atomic>
#include <cstdint>
#include <limits>
#include <span>
#include <string>

namespace stress {

enum class kind : std::uint8_t {
  plain,
  throwing,
  waiting,
  throwing_later,
  nested,  // waits for the next record's request, inside its body
  guard,
  handle,
  post,
  tried,
  tried_guard,
  close,
};

enum class outcome : std::uint8_t {
  none,      // asked and never answered, or never asked
  returned,  // with `got`
  threw,     // the body did, with `got`
  posted,    // accepted; nobody waits for it
  not_idle,  // tried in vain
  refused,   // the section is closed
};

inline constexpr std::uint64_t unknown = std::numeric_limits<std::uint64_t>::max();

// One request.
struct record {
  // Known before the round.
  std::uint32_t id = 0;
  std::uint32_t section = 0;
  kind what = kind::plain;
  std::uint64_t given = 0;
  // Written by whoever asks. Stamps: before the call; at the first moment at which it was in line
  // for sure; with its result. 0 where there was none.
  std::uint64_t invoked = 0;
  std::uint64_t accepted = 0;
  std::uint64_t responded = 0;
  std::uint64_t ticket = unknown;
  std::uint64_t got = 0;  // of a close: how many bodies had run
  outcome end = outcome::none;
  // Written by the body.
  std::uint64_t runs = 0;
  std::uint64_t sequence = unknown;  // its number among the runs of its section
  std::uint64_t result = 0;
  std::uint64_t together_with = unknown;  // the id of another one seen inside
};

// Real time, as far as one counter can tell: everybody takes numbers from it. A thread sanitizer
// must not see an order in it that the library did not make, hence relaxed there.
inline std::uint64_t stamp() noexcept {
  static std::atomic<std::uint64_t> clock{1};
  return clock.fetch_add(1, sanitized ? std::memory_order_relaxed : std::memory_order_seq_cst);
}

// What bodies do to a section's value: no two orders give the same.
constexpr std::uint64_t applied(std::uint64_t value, std::uint64_t given) noexcept {
  return value * 6364136223846793005u + given;
}

// What one section protects. It may outlive the section.
class ledger {
 public:
  // A body's begin and end. Loads and stores only, relaxed: two bodies see each other, and nothing
  // is ordered by it.
  void enter(record& r) noexcept {
    note_other(r, inside_.load(std::memory_order_relaxed));
    inside_.store(r.id, std::memory_order_relaxed);
  }
  void leave(record& r) noexcept {
    note_other(r, inside_.load(std::memory_order_relaxed));
    inside_.store(unknown, std::memory_order_relaxed);
  }

  // In two steps, so that a body can wait in between.
  std::uint64_t value() const noexcept { return value_; }
  std::uint64_t run(record& r, std::uint64_t value_before) noexcept {
    ++r.runs;
    r.sequence = ran_++;
    r.result = value_ = applied(value_before, r.given);
    return r.result;
  }

  std::uint64_t ran() const noexcept { return ran_; }

 private:
  static void note_other(record& r, std::uint64_t inside) noexcept {
    if (inside != unknown && inside != r.id) r.together_with = inside;
  }

  std::uint64_t value_ = 0;
  std::uint64_t ran_ = 0;
  std::atomic<std::uint64_t> inside_{unknown};
};

// Says what the first violation is and names its records; empty if there is none. The records of a
// round, `id` being their index. O(n).
//
//   once       what was accepted ran once; what was refused, or tried in vain, never did
//   alone      no body saw another one inside, and no two have the same number
//   tickets    a section's bodies ran in the order of their tickets, where they are known
//   real time  what was in line before another was asked for ran before it
//   replay     the values are those of the bodies one after the other, and each asker got its own
//   close      nothing is accepted after it, nothing is refused without it, nothing runs after it
std::string first_violation(std::span<const record> all);

}  // namespace stress
