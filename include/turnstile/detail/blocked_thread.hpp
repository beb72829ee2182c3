// blocked_thread.hpp - a thread that waits in place for its request to be served.
//
// Shape     word = done | job | parked | away
//
//             -        --spun in vain----> parked        by the thread
//             ., parked --signal---------> done, parked   by whoever hands its request back
//             ., parked --post-----------> job, parked    by whoever gives it the section to serve
//             job      --run-------------> -             by the thread, which then waits again
//             done     --returns                         the thread goes on
//             -, job   --go away---------> away          by the thread, which blocks for something
//                                                        else first; a job goes to the shared pool,
//                                                        and so does what is posted from now on
//             away     --wait------------> -             by the thread
//
//           While its request is in line, and before it waits, a thread runs what it has served,
//           and that may block it for something that the section has to do (test/schedule). It has
//           gone away then.
//
//           done and job come once for each wait, and may be there together: the request was
//           withdrawn after the section had been given away with it. Then the job is run first.
//
// Edges     B1  word.fetch_add(seq_cst) in signal, CAS(seq_cst) in take -> load(acquire) in spin
//               and park, fetch_or(acquire) in go_away: the result, or the job.
//               seq_cst, because notify_one looks whether anybody waits: its look must not come
//               before
//
// Progress  signal is wait-free and post lock-free; both make a system call only if the thread is
//           parked. wait blocks a thread.
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
  void signal() noexcept {
    atomic<std::uint32_t>& word = word_;
    if ((word.fetch_add(done, seq_cst) & parked) != 0) word.notify_one();  // B1
  }

  // As an executor: whoever serves the section gives it away with this thread's request, which is
  // next.
  void post(job& j) noexcept;

  // By the thread, while its request is in line and it does not wait yet, or runs a job: what
  // blocks it in this scope may have to be done by the section. Such scopes nest.
  class in_line {
   public:
    explicit in_line(blocked_thread& me) noexcept;
    ~in_line();
    in_line(const in_line&) = delete;
    in_line& operator=(const in_line&) = delete;
  };

  // By the thread, before it blocks for something else: all whose scopes it is in.
  static void go_away_all() noexcept;

  // By the thread. Serves others meanwhile if it is asked to.
  void wait() noexcept;

  // By the thread, instead: it has withdrawn its request itself. The section may have been given to
  // it before.
  void need_not_wait() noexcept;

 private:
  static constexpr std::uint32_t parked = 1;
  static constexpr std::uint32_t has_job = 2;
  static constexpr std::uint32_t done = 4;
  static constexpr std::uint32_t away = 8;

  bool take(job& j) noexcept;
  void go_away() noexcept;
  std::uint32_t await_word() noexcept;
  std::uint32_t spin() noexcept;
  std::uint32_t park() noexcept;
  void run_job() noexcept;

  atomic<std::uint32_t> word_{0};
  guarded<job*> job_;                // B1
  blocked_thread* outer_ = nullptr;  // whose scope this one's is in
};

// Where the requests of blocked threads go when they are done with: each tells its thread, wherever
// that is.
struct TURNSTILE_VISIBLE blocked_threads {
  void post(job& j) noexcept { job_access::work_here(j); }  // j may be gone
};
extern constinit blocked_threads to_blocked_threads;  // one for a program and the library it shares

}  // namespace turnstile::detail
