// manual_executor.hpp - an executor whose owner says when jobs run: loops of games and GUIs, tests.
//
// Behind it: lib/executor.
#pragma once

#include <turnstile/detail/fifo.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>

namespace turnstile {

/// Runs jobs only inside `run_one` and `run`, in the order they were posted.
///
/// Threads    all members from any thread
/// Memory     a job sees what came before its `post`
/// Progress   every member takes a lock for a step of a list, not while a job runs. Jobs wait until
///            somebody calls run_one or run
/// Lifetime   to be destroyed with jobs still queued is reported on stderr and aborts: whoever
///            waits for them would never be resumed. A request that is withdrawn after its section
///            was posted here leaves a job, too: run it until pending() is 0
class manual_executor {
 public:
  manual_executor() = default;
  ~manual_executor();
  manual_executor(const manual_executor&) = delete;
  manual_executor& operator=(const manual_executor&) = delete;

  void post(job& j) noexcept;
  void post(job* first, job* last, std::size_t n) noexcept;

  /// Runs the oldest job. False: there was none.
  bool run_one();

  /// Runs jobs until there are none, including those that the jobs post. Returns how many it ran.
  std::size_t run();

  std::size_t pending() const;

 private:
  mutable detail::mutex mutex_;
  detail::fifo<job, &job::next> jobs_;
  detail::guarded<std::size_t> n_{0};
};

}  // namespace turnstile
