// thread_pool.hpp - a fixed number of threads that run jobs and steal from each other.
//
// Behind it: lib/executor.
#pragma once

#include <turnstile/executor.hpp>
#include <turnstile/fiber.hpp>

#include <cstddef>
#include <source_location>
#include <utility>

namespace turnstile {

namespace detail {
class pool_core;
}

/// Runs jobs on a fixed number of threads. A worker keeps what it posts itself, in order, and idle
/// workers take half of it. Forks (fork.hpp) are kept apart, and run first. Workers with nothing to
/// do sleep.
///
/// Threads    `post` from any thread; construction and destruction from one
/// Order      a worker's own jobs are begun in the order it posted them, unless stolen; none across
///            workers
/// Memory     a job sees what came before its `post`
/// Resumes    a coroutine that waited for a section resumes on the worker it left, unless another
///            one that is idle takes it, or the worker that served it does little but run bodies
/// Progress   posting from a worker is lock-free while its queue of 256 has room, and a system call
///            if it wakes another one; beyond that, until all that did not fit has found room, and
///            from elsewhere, it takes a lock for the length of a list splice
/// Lifetime   the destructor runs what is queued, then joins; not on one of the threads
///            What they post to it while they end (from a destructor of a thread_local object) it
///            runs itself, after that: they must not wait for it
class TURNSTILE_VISIBLE thread_pool {
 public:
  /// Throws `std::invalid_argument` for 0 threads, `std::system_error` if one cannot be started.
  explicit thread_pool(unsigned threads);
  ~thread_pool();
  thread_pool(const thread_pool&) = delete;
  thread_pool& operator=(const thread_pool&) = delete;

  unsigned size() const noexcept;

  void post(job& j) noexcept;
  void post(job* first, job* last, std::size_t n) noexcept;

  /// A fiber on this pool: see fiber.hpp.
  template <class F>
  auto spawn_fiber(F&& f, const fiber_options& options = detail::default_fiber,
                   std::source_location where = std::source_location::current()) {
    return turnstile::spawn_fiber(*this, std::forward<F>(f), options, where);
  }

  /// The process's own pool, made at first use: max(2, hardware threads) threads. At the end of the
  /// process, in the order of static objects, it runs what is queued, and what that posts, and
  /// joins its threads; so work that never ends keeps the process from ending, and so does work
  /// that blocks for a sleep, a timeout or a deadline, for no time is up any more. What other
  /// threads post to it from then on, destructors of objects made before it included, is run by two
  /// threads that nobody joins. It joins nobody if a thread of any pool, or a timeout's callback,
  /// calls std::exit, nor in a child of fork(), where its threads do not exist.
  static thread_pool& shared();

 private:
  detail::pool_core* core_;  // not a unique_ptr: what the destructor runs may still post
};

}  // namespace turnstile
