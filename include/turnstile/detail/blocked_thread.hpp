// blocked_thread.hpp - a thread that waits in place for its request to be served.
//
// Shape     word = done | job | parked
//
//             -        --spun in vain----> parked        by the thread
//             ., parked --signal---------> done, parked   by whoever hands its request back
//             ., parked --post-----------> job, parked    by whoever gives it the section to serve on
//             job      --run-------------> -             by the thread, which then waits again
//             done     --returns                         the thread goes on
//
//           done and job come once for each wait, and may be there together: the request was withdrawn
//           after the section had been given away with it. Then the job is run first.
//
// Edges     B1  word.fetch_add(seq_cst) in tell -> load(acquire) in await_word: the result, or the job.
//               seq_cst, because notify_one looks whether anybody waits: its look must not come before
//
// Progress  signal and post are wait-free, and make a system call only if the thread is parked. wait
//           blocks a thread.
//
// Dangers   After signal's fetch_add the thread may have returned, and this object be gone. Notifying uses
//           the address only, and a waiter looks at the word again whenever it wakes.
//           Nobody posts a job to a thread whose request has been handed back: the section was given
//           away with that very request, while it was in line.
//
// Proof     test/schedule (blocking)
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/thread_state.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <chrono>
#include <cstdint>

namespace turnstile::detail {

class blocked_thread {
 public:
  // What parking costs: a system call to fall asleep, one by another thread to wake this one, and the way
  // back onto a core. Who spins as long as that loses at most half (Karlin, Manasse, McGeoch, Owicki 1990).
  static constexpr std::chrono::nanoseconds most_spinning = limit(std::chrono::microseconds(2), {});

  blocked_thread() noexcept = default;
  blocked_thread(const blocked_thread&) = delete;
  blocked_thread& operator=(const blocked_thread&) = delete;

  // By whoever hands its request back, once. This may be gone afterwards.
  void signal() noexcept { tell(done); }

  // As an executor: whoever serves the section gives it away with this thread's request, which is next.
  void post(job& j) noexcept {
    job_ = &j;
    tell(has_job);  // and the section may have ended
  }

  // By the thread. Serves others meanwhile if it is asked to.
  void wait() noexcept {
    while ((await_word() & has_job) != 0) run_job();
  }

  // By the thread, instead: it has withdrawn its request itself. The section may have been given to it before.
  void need_not_wait() noexcept {
    if ((word_.load(acquire) & has_job) != 0) run_job();  // B1
  }

 private:
  static constexpr std::uint32_t parked = 1;
  static constexpr std::uint32_t has_job = 2;
  static constexpr std::uint32_t done = 4;

  void tell(std::uint32_t what) noexcept {
    atomic<std::uint32_t>& word = word_;
    if ((word.fetch_add(what, seq_cst) & parked) != 0) word.notify_one();  // B1
  }

  void run_job() noexcept {
    job& j = *job_;
    word_.fetch_and(done, relaxed);  // whoever posts again comes after the job
    const chain_scope nothing_held{nullptr};
    const trampoline before_it(true);
    job_access::work_here(j);
  }

  // Until it says something.
  std::uint32_t await_word() noexcept {
    const steady_clock::time_point begun = steady_clock::now();
    do {
      for (int i = 0; i != looks_between_clocks; ++i) {
        if (const std::uint32_t seen = word_.load(acquire); seen != 0) return seen;  // B1
        pause();
      }
    } while (steady_clock::now() - begun < most_spinning);
    return park();
  }

  std::uint32_t park() noexcept {
    std::uint32_t nothing = 0;
    word_.compare_exchange_strong(nothing, parked, relaxed, relaxed);  // or it says something
    for (;;) {
      if (const std::uint32_t seen = word_.load(acquire); seen != parked) return seen;  // B1
      word_.wait(parked, relaxed);
    }
  }

  static constexpr int looks_between_clocks = limit(8, 1);

  atomic<std::uint32_t> word_{0};
  guarded<job*> job_{nullptr};  // B1
};

// Where the requests of blocked threads go when they are done with: each tells its thread, wherever that is.
struct blocked_threads {
  void post(job& j) noexcept { job_access::work_here(j); }  // j may be gone
};
inline constinit blocked_threads to_blocked_threads;

}  // namespace turnstile::detail
