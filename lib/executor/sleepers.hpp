// sleepers.hpp - how many of a pool's workers sleep or search, and how one is woken.
//
// Shape     word = sleeping (high 32) | searching (low 32)
//
//             (s, n)   --begin_search-->  (s, n+1)     a worker has run out of jobs
//             (s, n)   --found-------->   (s, n-1)     it has one again; the last one looks round
//             (s, n)   --lie_down----->   (s+1, n-1)   it gives up, and looks once more after that
//             (s, 0)   --wake_one----->   (s-1, 1)     by whoever posted; one token for the sleeper
//             (s, n)   --get_up------->   (s-1, n+1)   the look was not in vain
//
//           Who is woken is not said: a token goes to any sleeper. One that gets up by itself takes
//           a place in `sleeping`; if wake_one was faster there is a token for it instead. At the
//           end there are tokens for everybody, so who lies down too late for a wake-up does not
//           sleep.
//
// Edges     Q3 of run_queue.hpp: posting, then word.load(seq_cst) in wake_one; lie_down
//           RMW(seq_cst), then the queues' seq_cst loads. Likewise found: RMW(seq_cst), then the
//           same loads, so that a post which relied on a searcher is not left behind.
//           Stop of a pool: stopping, then word.load(seq_cst) in wake_one; lie_down RMW(seq_cst),
//           then the load of stopping. One is enough, for whoever lies down last sees it and ends
//           the pool.
//           End of a pool: all_lie RMW(release) -> CAS(acquire) in get_up and wake_one, and from
//           wake_one on through tokens. Whoever takes a job has got up before: either all_lie sees
//           that, or the look before all_lie came before the job was taken, and saw it.
//           tokens: written with seq_cst, because notify looks whether anybody waits.
//           Everything else only counts and is relaxed.
//
// Progress  wake_one is lock-free; sleep blocks its thread, by design. A searcher looks at each
//           victim that it has not looked at lately for up to 25 us, or until mail or something
//           from outside comes, and may nap beside a brisk worker (pace.hpp), for 200 us, times
//           those who nap where threads are more than cores (16 at most); a post that relies on it
//           waits as long, at most once a worker.
//
// Proof     test/schedule (pool), model parking; test/executor; an idle pool
//           uses no processor time (test/path)
//
// Source    the shape is that of tokio's idle state; anonymous tokens instead of a list of sleepers
//           are ours.
#pragma once

#include <turnstile/detail/atomic.hpp>

#include <cstdint>

namespace turnstile::detail {

class sleepers {
 public:
  void begin_search() noexcept { word_.fetch_add(one_searching, relaxed); }

  // True: the caller was the last one searching, so it has to look whether something was left.
  [[nodiscard]] bool found() noexcept {
    return searching(word_.fetch_sub(one_searching, seq_cst)) == 1;
  }

  void lie_down() noexcept { word_.fetch_add(one_sleeping - one_searching, seq_cst); }

  // True: none of the `n` works, searches or is being woken.
  bool all_lie(std::uint32_t n) noexcept { return word_.fetch_add(0, release) == n * one_sleeping; }

  // After lie_down: searching again without having slept.
  void get_up() noexcept {
    std::uint64_t seen = word_.load(relaxed);
    while (sleeping(seen) != 0) {
      if (word_.compare_exchange_weak(seen, seen - one_sleeping + one_searching, acquire,
                                      relaxed)) {
        return;
      }
    }
    sleep();  // somebody woke us: the token is there, or about to be
  }

  // After lie_down: returns when woken, searching.
  void sleep() noexcept {
    std::uint32_t n = tokens_.load(relaxed);
    for (;;) {
      if (n == 0) {
        tokens_.wait(0, relaxed);
        n = tokens_.load(relaxed);
      } else if (tokens_.compare_exchange_weak(n, n - 1, acquire, relaxed)) {
        return;
      }
    }
  }

  // From now on nobody sleeps. For a pool whose workers all lie.
  void end() noexcept {
    tokens_.store(for_everybody, seq_cst);
    tokens_.notify_all();
  }
  bool has_ended() const noexcept { return tokens_.load(relaxed) > for_everybody / 2; }

  // Wakes one if somebody sleeps and nobody searches.
  void wake_one() noexcept {
    std::uint64_t seen = word_.load(seq_cst);  // Q3
    while (sleeping(seen) != 0 && searching(seen) == 0) {
      if (word_.compare_exchange_weak(seen, seen - one_sleeping + one_searching, acquire,
                                      relaxed)) {
        tokens_.fetch_add(1, seq_cst);  // as Y1 of sync_wait.hpp
        tokens_.notify_one();
        return;
      }
    }
  }

 private:
  static constexpr std::uint64_t one_searching = 1;
  static constexpr std::uint64_t one_sleeping = std::uint64_t{1} << 32;
  static constexpr std::uint32_t for_everybody = 1u << 31;  // more than 2^30 workers take

  static std::uint32_t sleeping(std::uint64_t w) noexcept {
    return static_cast<std::uint32_t>(w >> 32);
  }
  static std::uint32_t searching(std::uint64_t w) noexcept { return static_cast<std::uint32_t>(w); }

  atomic<std::uint64_t> word_{0};
  atomic<std::uint32_t> tokens_{0};
};

}  // namespace turnstile::detail
