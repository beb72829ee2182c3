// engine.hpp - who notices that streams have got somewhere, where the device does not tell.
//
// Shape     Lanes with something pending are in a list. It is looked through by one thread at a
//           time:
//
//             polling = no --exchange--> yes --store--> no
//             coming  = those that have something pending now, newest first; taken all at once
//
//           Who looks (in the order of how soon it notices):
//             a worker of a pool without jobs   spinning for 50 us since something last happened,
//                                               then yielding its core for 150 more, then it sleeps
//             a worker with jobs                once in 61 of them
//             who asks event::ready
//             the watch (watch.cpp), a thread   if nobody looked for 100 us: then more and more
//                                               seldom, after an eighth of the time it has waited,
//                                               at most 1 ms
//             a blocked thread                  if one lane only is pending for long, in the
//                                               driver's own blocking call
//           With nothing pending nobody looks, and the watch sleeps.
//
// Edges     E1  exchange(acquire) and store(release) of polling: the list; and to load(acquire) in
//               drain: all that was done with the lanes that were let go of
//           E2  fetch_add(seq_cst) of pending in watch, then load(seq_cst) of the watch's resting
//               -> its store(seq_cst), then load(seq_cst) of pending: one of them sees the other
//           E3  CAS(release) of coming in watch -> exchange(acquire) by who looks: the lane
//
// Progress  watch is lock-free, and wakes a thread if that sleeps. A poll that finds somebody else
//           at it returns at once. No lock: in a forked child nobody would give it back.
//
// Dangers   A lane that said that nothing is pending may be gone, or be in the list of those that
//           come.
//           Whoever is told of a point runs within poll, and so must not wait for another poll.
//
// Proof     test/device
//
// Source    looking at the head of each stream only, one poller at a time, by idle workers: pika
//           and HPX; a short spin and then a blocking thread: CUDA.jl.
#pragma once

#include "executor/idle_look.hpp"

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/threads.hpp>

#include <chrono>
#include <cstdint>

namespace turnstile::detail {

// A lane that has to be asked. Linked into the engine from watch until poll says that nothing is
// pending.
class polled {
 public:
  struct [[nodiscard]] answer {
    bool reached_any;  // a point, which was told
    bool is_pending;   // false: the engine has let go of it and does not touch it any more
  };

  // Looks at the oldest point only, and at the next one while that one is reached. One thread at a
  // time.
  // Tells the waiters of what is reached; runs no code of users.
  virtual answer poll() noexcept = 0;

  // Whether the device has a call that blocks a thread until the oldest point is reached or has
  // failed.
  virtual bool can_block() const noexcept { return false; }
  // Makes that call; polling follows. In between hold and let_go, which keep the lane.
  virtual void block_on_oldest() noexcept {}
  virtual void hold() noexcept {}
  virtual void let_go() noexcept {}

 protected:
  polled() = default;
  ~polled() = default;

 private:
  friend class engine;

  guarded<polled*> next_{nullptr};
};

// One for the process.
class engine {
 public:
  static engine& the() noexcept;

  // `l` has something pending from now on. Once, until poll says otherwise. The caller may hold its
  // own lock: no lane is called from within.
  void watch(polled& l) noexcept;

  // One look at all lanes, unless somebody else is at it. True: something was reached.
  bool poll() noexcept;

  bool has_pending() const noexcept { return pending_.load(seq_cst) != 0; }  // E2

  // Blocks until `are_done()`, which says that the engine has let go of some lanes and nobody adds
  // to them, and until whoever let go of them is out of them. Looks meanwhile. False: it took too
  // long.
  template <class F>
  bool drain(F are_done, steady_clock::time_point until) noexcept {
    while (!are_done() || polling_.load(acquire)) {  // E1
      const bool found = poll();
      if (steady_clock::now() >= until) return false;
      if (!found) sleep_for(std::chrono::microseconds(50));
    }
    return true;
  }

  // For the watch. How often somebody has looked; how many lanes have come; and the lane that is
  // pending alone, if it can block, with a hold on it.
  std::uint32_t looks() const noexcept { return looks_.load(relaxed); }
  std::uint32_t lanes_ever() const noexcept { return lanes_ever_.load(seq_cst); }  // E2
  polled* hold_only_one() noexcept;

 private:
  engine() noexcept;

  static idle_look look() noexcept;
  idle_look try_poll() noexcept;
  bool poll_all() noexcept;
  void take_those_that_come() noexcept;

  atomic<polled*> coming_{nullptr};
  guarded<polled*> lanes_{nullptr};  // E1
  atomic<bool> polling_{false};
  atomic<std::uint32_t> pending_{0};
  atomic<std::uint32_t> lanes_ever_{0};
  statistic<std::uint32_t> looks_{0};
};

}  // namespace turnstile::detail
