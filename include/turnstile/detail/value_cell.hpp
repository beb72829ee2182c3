// value_cell.hpp - which block of a variable is the current one, who takes it, who replaces it.
//
// Shape     word = (block, written, taken): 42 bits, the block's address / 64; 1 bit; 21 bits
//             taken = how often the block was taken from here, less what is accounted for in its
//             shares
//             written = the block's value is being changed in place; who takes it now has to wait
//           A block is held by taken + (shares - attached) snapshots as long as it is the current
//           one.
//
//             (b, 0, n) --take--------> (b, 0, n+1)   a snapshot
//             (b, 0, n) --publish-----> (c, 0, 1)     n goes to b's shares; the 1 is the writer's
//                                                     snapshot
//             (b, 0, n) --claim-------> (b, 1, n)     then n + shares - attached == 0: nobody has
//                                                     it
//             (b, 1, k) --give up-----> (b, 0, k)     somebody has it after all
//             (b, 1, n+k) --written---> (b, 0, k+1)   k came meanwhile, and have waited
//             (b, 0, n) --settle------> (b, 0, 0)     n was added to b's shares before
//
//           Only who has the turn (a lock among writers) publishes, claims, gives up or finishes.
//           newest_version = the version of the current block, or a little behind; takers help it
//           on.
//
// Edges     V1  exchange(release) in publish -> fetch_add(acquire) in take: the value
//           V2  fetch_sub(seq_cst) in written and give_up -> load(acquire) in wait_for: the value
//               written in place. seq_cst, because notify_all looks whether anybody waits: either
//               it sees the one who waits, or that one sees the word without its mark
//           V3  shares.fetch_sub(acq_rel) in let_go -> shares.load(acquire) in claim: all that
//               holders have read, before it is written over
//           V4  shares.fetch_sub and fetch_add(acq_rel) among each other: the same, before it is
//               freed
//           V5  CAS(release) in settle -> fetch_add(acquire) in claim: that the shares know of what
//               the word has no longer
//           V6  newest.store and CAS(release) -> load(acquire) in version: who was told a version
//               and then takes gets no older one
//
// Progress  take     one fetch_add, wait-free, never waits for a writer that copies or replaces.
//                    While a value that nobody holds is changed in place there is nothing to read:
//                    whoever comes then waits for that one change (and blocks its thread), and for
//                    no other, because it has its share already.
//           claim, written, give_up, publish: wait-free. settle: lock-free, once in a million
//           takes.
//           The turn is a lock: writers wait for each other, and for each other's functions.
//
// Dangers   That nobody holds the block has to be seen after the mark is set: before, settle could
//           move the count through the same number. The look before that saves marking in vain.
//           settle adds before it subtracts: a block may seem to be held by too many, never by too
//           few.
//           A thread that comes back to the variable from inside its own change would wait for
//           itself: it is known by its list of turns, and gets an exception.
//
// Proof     test/schedule (variable): V1 to V5 each fails if weakened; V6 only forbids load
//           buffering, which the checker does not have. test/variable, test/stress
//
// Source    a count beside the pointer and one in the block: split reference counts (Williams, C++
//           Concurrency in Action, 2012), as in folly's AtomicSharedPtr; changing a value in place,
//           and the mark for that, are ours.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/own_change.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/detail/value_block.hpp>

#include <cstdint>

namespace turnstile::detail {

class value_cell {
 public:
  explicit value_cell(value_block& first);
  value_cell(const value_cell&) = delete;
  value_cell& operator=(const value_cell&) = delete;

  // The current block and a share of it. Throws std::logic_error inside a change in place of this
  // thread's own.
  value_block& take() {
    const std::uint64_t was = word_.fetch_add(1, acquire);  // V1
    if ((was & low_bits) >= enough) [[unlikely]]
      arrange(was);
    value_block& b = *block_in(was);
    const std::uint64_t version = b.version;
    if (newest_.load(relaxed) < version) [[unlikely]]  // relaxed: only a hint
      raise_to(version);
    return b;
  }

  std::uint64_t version() const noexcept { return newest_.load(acquire); }  // V6

  // The right to write, for as long as it lives. Throws std::logic_error if this thread has it.
  class turn : private written_here {
   public:
    explicit turn(value_cell& cell);
    ~turn();
    turn(const turn&) = delete;
    turn& operator=(const turn&) = delete;

    value_block& current() const noexcept { return *cell().current_; }

    // True: nobody has the current block, and who takes it waits until written was called.
    bool claim() noexcept;
    // The claimed block has a new value. Gives a share of it to the caller.
    void written() noexcept;
    // Another block is the current one. Gives a share of it to the caller; and the old one, if
    // nobody holds that any more and the caller frees it.
    [[nodiscard]] value_block* publish(value_block& next) noexcept;

   private:
    value_cell& cell() const noexcept { return *static_cast<value_cell*>(place); }
    void give_up() noexcept;

    std::uint64_t taken_ = 0;  // at the claim
  };

  // At the end of the variable: gives the block, if nobody holds it any more and the caller frees
  // it.
  [[nodiscard]] value_block* detach() noexcept;

 private:
  static constexpr int taken_bits = 21;
  static constexpr std::uint64_t being_written = std::uint64_t{1} << taken_bits;
  static constexpr std::uint64_t low_bits = being_written * 2 - 1;
  // Taken so often, the count moves to the block. Leaves room for a million threads at this point.
  static constexpr std::uint64_t enough = limit(being_written / 2, std::uint64_t{3});

  static std::uint64_t word_of(const value_block& b);
  static value_block* block_in(std::uint64_t word) noexcept {
    // Below the block's bits are exactly 6 + 16: see word_of.
    return reinterpret_cast<value_block*>((word >> (taken_bits + 1)) * alignof(value_block));
  }
  static std::uint64_t taken_in(std::uint64_t word) noexcept { return word & (being_written - 1); }

  void arrange(std::uint64_t was);
  void wait_for(const value_block& b) const noexcept;
  void settle(value_block& b) noexcept;
  void raise_to(std::uint64_t version) noexcept;
  value_block* let_go_of(std::uint64_t word) noexcept;

  atomic<std::uint64_t> word_;
  atomic<std::uint64_t> newest_{0};
  guarded<value_block*>
      current_;  // who has the turn; a plain pointer, for tools that look for leaks
  mutex turns_;
};

}  // namespace turnstile::detail
