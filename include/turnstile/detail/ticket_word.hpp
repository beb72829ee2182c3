// ticket_word.hpp - place in line and idle test in one fetch_add.
//
// Shape     word = ticket (37 bits) | kept (1 bit) | closed (1 bit) | pending (25 bits)
//
//             (t, -, 0)    idle; the next request has ticket t
//             (t, -, n)    n requests accepted and not yet accounted for: one is being served
//             (t, K, n)    the same, but what is being served is whatever one thread asks for, and
//                          perhaps nothing just now: keeper.hpp
//             (t, C, n)    closed; whoever comes now gives its count back
//
//           (t, -, n) --arrive-----> (t+1, -, n+1)  n = 0: the caller owns the section
//                                                   n > 0: the caller owes a publish, or a
//                                                   take_own (ticket_ring.hpp); who comes
//                                                   first to (t, K, 1) may take it and let_go
//           (t, C, n) --arrive-----> (t+1, C, n+1) --> (t+1, C, n)   refused
//           (t, -, n) --account k--> (t, -, n-k)    by the owner; n = k: idle, do not touch again
//           (t, -, n) --close------> (t+1, C, n+1)  like arrive, and nobody after it gets in
//           (t, -, 1) --keep-------> (t, K, 1)      by the owner instead of account, if
//                                                   nobody has come since
//           (t, K, n) --let_go-----> (t, -, n-1)    by whoever has taken it; n = 1: as account
//           (t, K, n) --hold_kept--> (t, -, n)      the same, by who goes on to hold it
//
//           Private to the owner (the thread between winning and leaving the section): head, the
//           ticket whose turn it is; unaccounted and known, what it has not told the word yet.
//
// Edges     W1  through idle  fetch_sub(release) in leave, settle, let_go -> fetch_add(acquire) in
//               arrive, CAS(acquire) in try_arrive, close
//               the effects of all bodies, and the private side, go to the next owner. Arrivals in
//               between are RMWs and continue the release sequence.
//           K4, where the kept bit is set or looked at, is keeper.hpp's.
//
// Progress  arrive, leave, settle, account, keep and let_go are wait-free; try_arrive and close are
//           lock-free.
//
// Dangers   After a fetch_sub that says idle the section may be gone: it is the last touch.
//
// Proof     test/schedule (ring), model ticket_ring; test/ring, test/stress
//
// Source    counting in the word that is the idle test: folly's StrandExecutor; tickets by
//           fetch_add: LCRQ (Morrison, Afek, 2013). Both in one word is ours.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>

#include <cstddef>
#include <cstdint>

namespace turnstile::detail {

enum class [[nodiscard]] arrival : std::uint8_t {
  owner,    // the section was idle: the caller owns it
  queued,   // the caller owes a publish, or takes its own
  closed,   // refused; nothing is owed
  outside,  // it has not arrived: it waits to be let in (lib/strand/gate.hpp)
};

class ticket_word {
 public:
  using place = std::uint64_t;  // the word as the arrival found it

  struct private_side {
    guarded<std::uint64_t> head{0};  // ticket whose turn it is
    // Requests finished since the word was last told. Relaxed: statistics look at it from anywhere.
    atomic<std::uint32_t> unaccounted{0};
    guarded<std::uint32_t> known{0};  // pending requests when it was
  };

  static constexpr std::uint64_t ticket_of(place p) noexcept { return p >> ticket_shift; }

  // True if ticket a comes before ticket b. They are less than 2^25 apart, so 37 bits are plenty.
  static constexpr bool before(std::uint64_t a, std::uint64_t b) noexcept {
    return static_cast<std::int64_t>((a - b) << ticket_shift) < 0;
  }

  TURNSTILE_INLINE arrival arrive(place& p) noexcept {
    p = word_.fetch_add(one_ticket | 1, acquire);  // W1
    if ((p & (pending_mask | closed_bit)) == 0) [[likely]]
      return arrival::owner;
    return arrive_busy(p);
  }

  // Like arrive, but only if the section is idle; otherwise nothing is owed.
  arrival try_arrive(place& p) noexcept;

  // Like arrive, and nobody after it gets in.
  arrival close(place& p) noexcept;

  // The common end: one body is done and the private side was not touched. True: idle.
  TURNSTILE_INLINE bool leave(place p, private_side& mine) noexcept {
    const std::uint64_t was = word_.fetch_sub(1, release);  // W1
    if ((was & pending_mask) == 1) [[likely]]
      return true;
    mine.head = (ticket_of(p) + 1) & ticket_mask;
    mine.unaccounted.store(0, relaxed);
    mine.known = static_cast<std::uint32_t>((was & pending_mask) - 1);
    return false;
  }

  // Instead of leave: the section stays with its owner. False: somebody has come meanwhile.
  bool keep(place p, private_side& mine) noexcept;
  // What it was kept for is over: as leave, by whoever owns it now.
  bool let_go(private_side& mine) noexcept;
  // The same by who is inside, and stays there: as after begin.
  void hold_kept(private_side& mine) noexcept;
  static bool found_kept(place p) noexcept { return (p & kept_bit) != 0; }
  static bool found_any(place p) noexcept { return (p & (kept_bit | pending_mask)) != 0; }
  // One was inside, which does not keep it, and nobody in line.
  static bool found_one(place p) noexcept { return (p & (kept_bit | pending_mask)) == 1; }
  static bool is_first_at_kept(place p) noexcept {
    return (p & (kept_bit | pending_mask)) == (kept_bit | 1);
  }
  bool is_kept() const noexcept { return found_kept(word_.load(seq_cst)); }  // K4

  // The caller owns the section with the request that arrived at `p`, which is not done yet.
  static void begin(place p, private_side& mine) noexcept {
    mine.head = ticket_of(p);
    mine.unaccounted.store(0, relaxed);
    mine.known = 1;
  }

  // The request whose turn it was is done.
  static void finish(private_side& mine) noexcept {
    mine.head = (mine.head + 1) & ticket_mask;
    mine.unaccounted.store(mine.unaccounted.load(relaxed) + 1, relaxed);
  }

  // Looks at the word if the owner knows of nothing pending any more. True: idle.
  bool settle(private_side& mine) noexcept {
    const std::uint32_t done = mine.unaccounted.load(relaxed);
    if (done != mine.known) return false;
    mine.unaccounted.store(0, relaxed);
    const std::uint64_t was = word_.fetch_sub(done, release);  // W1
    const auto left = static_cast<std::uint32_t>((was & pending_mask) - done);
    if (left == 0) return true;  // the last touch
    mine.known = left;
    return false;
  }

  // Tells the word what is finished. At least one pending request is not.
  void account(private_side& mine) noexcept;

  // By the owner, whose request has ended: true if there is another one, so that next will not
  // leave.
  bool has_more(const private_side& mine) const noexcept {
    // Relaxed: next sees what came.
    return (word_.load(relaxed) & pending_mask) > mine.unaccounted.load(relaxed) + std::uint64_t{1};
  }

  // What the word knows of; `ended` of them have ended since.
  std::size_t pending() const noexcept { return word_.load(relaxed) & pending_mask; }
  static std::size_t ended(const private_side& mine) noexcept {
    return mine.unaccounted.load(relaxed);
  }
  std::size_t most_pending() const noexcept { return most_.load(relaxed); }
  // Who arrived at `p` found it kept, and somebody inside.
  void note_waiting_behind(place p) noexcept;

 private:
  static constexpr int ticket_shift = 27;
  static constexpr std::uint64_t pending_mask = (std::uint64_t{1} << 25) - 1;
  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 25;
  static constexpr std::uint64_t kept_bit = std::uint64_t{1} << 26;
  static constexpr std::uint64_t one_ticket = std::uint64_t{1} << ticket_shift;
  static constexpr std::uint64_t ticket_mask = ~std::uint64_t{0} >> ticket_shift;
  // Leaves room for the arrivals that are under way when the limit is noticed.
  static constexpr std::uint64_t most_allowed = pending_mask - 65536;

  TURNSTILE_COLD arrival arrive_busy(place p) noexcept;
  void note_queued(place p) noexcept;

  atomic<std::uint64_t> word_{0};
  statistic<std::uint32_t> most_{0};  // high-water mark of pending: a statistic, relaxed throughout
};

}  // namespace turnstile::detail
