// delegated_mutex.hpp - a section for code that only knows std::scoped_lock.
//
// Behind it: lib/fiber.
#pragma once

#include <turnstile/critical_section.hpp>
#include <turnstile/section_guard.hpp>

#include <source_location>
#include <string_view>

namespace turnstile {

/// A Lockable over a section. The code between lock and unlock is one of the section's bodies: it
/// waits in line with all other requests.
///
/// In a fiber, lock does not block the thread. If the section is busy, the code up to unlock runs
/// on the thread that serves the section, or on the section's executor, where the data is warm;
/// after unlock the fiber resumes on the executor it came from. So that code must not rely on its
/// thread: no `thread_local` values and no std::mutex kept across lock or unlock, no CUDA device
/// that was set before.
/// Elsewhere lock blocks the thread. A plain thread's unlock runs no code of others, unless an
/// executor runs jobs within post, the section's or that of a coroutine which goes on: one
/// std::scoped_lock of this and a std::mutex, and a std::condition_variable_any, are safe there,
/// but not in a fiber. Bodies that wait run on the section's executor then, or on
/// thread_pool::shared(), whose threads must not all be blocked. On an executor's thread unlock
/// serves what waits, so bodies must not lock what is locked across it.
///
/// Choose it for code that cannot be changed. Other code should use critical_section::execute.
///
/// Threads    any; a fiber unlocks what it locked, innermost first, and a thread what it locked.
///            Anything else is reported and aborts; so does, in a fiber, one std::scoped_lock of
///            several of these, because it unlocks the first one first: nest them instead
/// Order      the section's, which no later request overtakes
/// Memory     what the holder wrote is seen by every later body of the section
/// Throws     lock: what a request would, reentry_error, deadlock_error and section_closed among
///            them.
///            try_lock: section_closed and device_error, as critical_section::try_lock. Both:
///            bad_alloc
/// Cancel     a wait in lock ends with the fiber's stop, or the when_any, timeout or scope around
/// Lifetime   the section outlives the mutex; several mutexes over one section are one lock. Nested
///            locks of different sections have no limit; a fiber's first lock allocates, and so
///            does each that it takes while it holds another
class delegated_mutex {
 public:
  /// `where` is what errors call the place of its requests.
  explicit delegated_mutex(critical_section& section,
                           std::source_location where = std::source_location::current()) noexcept
      : section_(&section), where_(where) {}
  ~delegated_mutex();
  delegated_mutex(const delegated_mutex&) = delete;
  delegated_mutex& operator=(const delegated_mutex&) = delete;

  void lock();
  /// Never waits. In a fiber false for a section bound to an executor, unless it runs there.
  bool try_lock();
  void unlock() noexcept;

 private:
  void hold(section_guard guard) noexcept;
  bool try_lock_in(detail::fiber_core& f);
  [[noreturn]] void misused(std::string_view what) const noexcept;

  critical_section* const section_;
  const std::source_location where_;
  // By a plain thread; whoever owns the section may touch both.
  section_guard held_;
  const detail::thread_state* by_ = nullptr;
};

}  // namespace turnstile
