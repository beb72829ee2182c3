// executor.hpp - where code runs: a job, the concept of an executor, a reference to one.
//
// Behind it: lib/executor.
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/config.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <type_traits>

namespace turnstile {

struct job;
namespace detail {
struct job_access;
}

/// Something that runs jobs: `post(job&)` without exceptions. Optionally also
/// `post(job* first, job* last, std::size_t n)` for a chain linked through `next`; one that is not
/// `noexcept` is not used.
///
/// Threads    `post` is called from any thread
/// Order      whatever the executor promises; the library needs none
/// Memory     the job has to see what came before `post`
/// Progress   an executor that runs the job inside `post` delays the posting thread, which may be
///            about to serve a section, or be looking at devices for everything that waits for
///            one; such a job must not block the thread (`execute_blocking`, `sync_wait`). What it
///            posts runs inside it again: a long line of such steps needs a long stack
/// Lifetime   `post` must not touch the executor any more once the job can run: the job may end
///            the executor's life. A coroutine that has ended the executor it runs on must not
///            await anything of the library any more, not even an idle section: it still counts as
///            running there
template <class E>
concept executor = requires(E& e, job& j) {
  { e.post(j) } noexcept;
};

/// Refers to an executor, any type. Empty by default; two are equal if they refer to the same one,
/// as the same type: a base class is another executor than what derives from it.
class TURNSTILE_VISIBLE executor_ref {
 public:
  constexpr executor_ref() noexcept = default;

  template <executor E>
    requires(!std::same_as<std::remove_const_t<E>, executor_ref>)
  constexpr executor_ref(E& e) noexcept
      : object_(const_cast<std::remove_const_t<E>*>(std::addressof(e))),
        calls_(&calls_of<called_as<E>>) {}

  template <executor E>
    requires(!std::same_as<E, executor_ref>)
  executor_ref(const E&&) = delete;

  constexpr explicit operator bool() const noexcept { return object_ != nullptr; }

  friend constexpr bool operator==(executor_ref a, executor_ref b) noexcept {
    return a.object_ == b.object_ && a.calls_ == b.calls_;
  }

  /// Gives `j` to the executor, which runs it once. The reference must not be empty.
  void post(job& j) const noexcept;

  /// Gives a chain of `n` jobs, linked through `next`, in one go where the executor can.
  void post(job* first, job* last, std::size_t n) const noexcept;

 private:
  friend struct detail::job_access;

  // The same for one object, whoever refers to it, unless that would take one job after the other.
  template <class E>
  static constexpr bool takes_chains = requires(E& e, job* j) {
    { e.post(j, j, std::size_t{}) } noexcept;
  };
  template <class E>
  using called_as =
      std::conditional_t<executor<const E> && takes_chains<E> == takes_chains<const E>, const E, E>;

  struct calls {
    void (*one)(void*, job&) noexcept;
    void (*chain)(void*, job*, job*, std::size_t) noexcept;
  };

  template <class E>
  static void post_one(void* e, job& j) noexcept {
    static_cast<E*>(e)->post(j);
  }
  template <class E>
  static void post_chain(void* e, job* first, job* last, std::size_t n) noexcept;

  template <class E>
  static constexpr calls calls_of{&post_one<E>, &post_chain<E>};

  void* object_ = nullptr;
  const calls* calls_ = nullptr;
};

/// A piece of work that an executor runs exactly once. Intrusive: it lives in the frame or object
/// that waits for it, so posting allocates nothing.
///
/// Threads    owned by the executor from `post` until `run`; `next` is the executor's to use
/// Lifetime   `run` may end the job's life: read `next` before calling it
struct job {
  detail::guarded<job*> next;

  /// Without work: neither posted nor run, as the stub of a queue is.
  job() noexcept {}

  /// Runs the work. For its duration the calling thread counts as running on the executor that
  /// the job was posted to through an executor_ref. Calling an executor's own `post` does not
  /// change that, so one that passes jobs on remains theirs.
  void run() noexcept;

 protected:
  using work = void (*)(job&) noexcept;

  explicit job(work w) noexcept : next(nullptr), work_(w), home_() {}

  work work_;  // what run does
  union {
    executor_ref home_;  // where it was posted, or is going to be
  };

 private:
  friend class executor_ref;
  friend struct detail::job_access;
};

namespace detail {

// The private side of a job.
struct job_access {
  static executor_ref home(const job& j) noexcept { return j.home_; }
  static void set_home(job& j, executor_ref e) noexcept { j.home_ = e; }
  // The executor, if it is an E; else null.
  template <class E>
  static E* as(executor_ref e) noexcept {
    return e.calls_ == &executor_ref::calls_of<E> ? static_cast<E*>(e.object_) : nullptr;
  }
  // Does the work in the caller's surroundings, without changing what the thread runs on.
  static void work_here(job& j) noexcept { j.work_(j); }
};

}  // namespace detail

template <class E>
void executor_ref::post_chain(void* e, job* first, job* last, std::size_t n) noexcept {
  E& to = *static_cast<E*>(e);
  if constexpr (takes_chains<E>) {
    to.post(first, last, n);
  } else {
    // A job may end the executor's life, so `e` is not touched after the last one is posted.
    for (;;) {
      job* const after = first->next;
      const bool done = first == last;
      to.post(*first);
      if (done) return;
      first = after;
    }
  }
}

inline void executor_ref::post(job& j) const noexcept {
  j.home_ = *this;
  calls_->one(object_, j);
}

inline void executor_ref::post(job* first, job* last, std::size_t n) const noexcept {
  for (job* j = first;; j = j->next) {
    j->home_ = *this;
    if (j == last) break;
  }
  calls_->chain(object_, first, last, n);
}

}  // namespace turnstile
