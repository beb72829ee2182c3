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
//           done and job come once for each wait, and may be there together: the request was
//           withdrawn after the section had been given away with it. Then the job is run first.
//
// Edges     B1  word.fetch_add(seq_cst) in tell -> load(acquire) in spin and park: the result, or
//               the job.
//               seq_cst, because notify_one looks whether anybody waits: its look must not come
//               before
//
// Progress  signal and post are wait-free, and make a system call only if the thread is parked.
//           wait blocks a thread.
//
// Dangers   After signal's fetch_add the thread may have returned, and this object be gone.
//           Notifying uses the address only, and a waiter looks at the word again whenever it
//           wakes.
//           Nobody posts a job to a thread whose request has been handed back: the section was
//           given away with that very request, while it was in line.
//
// Proof     test/schedule (blocking)
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/executor.hpp>

#include <cstdint>

namespace turnstile::detail {

class blocked_thread {
 public:
  blocked_thread() noexcept = default;
  blocked_thread(const blocked_thread&) = delete;
  blocked_thread& operator=(const blocked_thread&) = delete;

  // By whoever hands its request back, once. This may be gone afterwards.
  void signal() noexcept { tell(done); }

  // As an executor: whoever serves the section gives it away with this thread's request, which is
  // next.
  void post(job& j) noexcept {
    job_ = &j;
    tell(has_job);  // and the section may have ended
  }

  // By the thread. Serves others meanwhile if it is asked to.
  void wait() noexcept;

  // By the thread, instead: it has withdrawn its request itself. The section may have been given to
  // it before.
  void need_not_wait() noexcept;

 private:
  static constexpr std::uint32_t parked = 1;
  static constexpr std::uint32_t has_job = 2;
  static constexpr std::uint32_t done = 4;

  void tell(std::uint32_t what) noexcept {
    atomic<std::uint32_t>& word = word_;
    if ((word.fetch_add(what, seq_cst) & parked) != 0) word.notify_one();  // B1
  }
  std::uint32_t await_word() noexcept;
  std::uint32_t spin() noexcept;
  std::uint32_t park() noexcept;
  void run_job() noexcept;

  atomic<std::uint32_t> word_{0};
  guarded<job*> job_;  // B1
};

// Where the requests of blocked threads go when they are done with: each tells its thread, wherever
// that is.
struct TURNSTILE_VISIBLE blocked_threads {
  void post(job& j) noexcept { job_access::work_here(j); }  // j may be gone
};
extern constinit blocked_threads to_blocked_threads;  // one for a program and the library it shares

}  // namespace turnstile::detail
