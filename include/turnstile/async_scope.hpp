// async_scope.hpp - the owner of coroutines that nobody awaits one by one.
//
// Behind it: lib/resume.
#pragma once

#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/scope_core.hpp>
#include <turnstile/executor.hpp>

#include <source_location>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace turnstile {

struct scope_options {
  bool fail_fast = false;      ///< the first error of spawned work asks the rest to stop
  executor_ref executor = {};  ///< where spawned work starts; default: on the calling thread
};

namespace detail {
inline constexpr scope_options default_scope{};
}

/// Starts coroutines and waits for all of them.
///
/// Threads    every member from any thread; construction and destruction from one
/// Memory     a coroutine that has joined sees what the work wrote
/// Progress   spawn allocates; it, the end of the work, and join do not block a thread but for a
///            few steps of a list
/// Runs on    the scope's executor, else the spawning thread until the work first suspends
/// Resumes    a joining coroutine on the executor it was running on
/// Throws     spawn: bad_alloc, and then the work did not start. join: the first error of the work
///            spawned, once, after all of it has ended; operation_cancelled only if nothing else
///            was thrown
/// Cancel     work runs below the scope's token: once a stop is requested, whatever it waits for in
///            the library ends with operation_cancelled, and so does what it waits for later. A
///            wait in a section's line ends at once only if the work was spawned when the scope was
///            stoppable already: with fail_fast, or after the first call of stop_token or
///            request_stop, or the first await of current_stop_token in its work; else when its
///            turn comes, and its body does not run. Work that starts after a stop still starts.
///            join itself ends with operation_cancelled if what surrounds the joining coroutine is
///            stopped; it may be awaited again
/// Lifetime   must be joined, or its work must have ended, before it is destroyed: else that is
///            reported on stderr, in one line, and aborts. Every coroutine that joins it must have
///            resumed, too, which is not checked. An error that no join took goes to
///            on_unobserved_error, but an operation_cancelled does not after a stop was requested
class async_scope {
 public:
  explicit async_scope(const scope_options& options = detail::default_scope)
      : executor_(options.executor),
        core_(new detail::scope_core(std::stop_source(), reaction(options))) {}
  ~async_scope() { core_->abandon(); }
  async_scope(const async_scope&) = delete;
  async_scope& operator=(const async_scope&) = delete;

  /// Starts `a`: an awaitable, not a function that gives one. A lambda that is a coroutine is
  /// called in the argument, and has to outlive the work. An lvalue is copied; a task is an rvalue
  /// here.
  template <detail::awaitable A>
  void spawn(A&& a, std::source_location where = std::source_location::current()) {
    // By value, also of an lvalue: nobody says how long that lives.
    using kept_here = std::remove_cvref_t<A>;
    auto* const work = new detail::spawned<kept_here>(*core_, kept_here(std::forward<A>(a)), where);
    core_->add();
    work->start(executor_);
  }
  // The line that compilers show says what to do.
  template <class A>
    requires(!detail::awaitable<A>)
  void spawn(A&&) = delete;  // spawn takes what can be awaited: call the lambda

  auto join(std::source_location where = std::source_location::current()) {
    return detail::join_awaiter(*core_, where);
  }

  /// Asks all work to stop, including work that is spawned later.
  void request_stop() noexcept { core_->request_stop(); }
  std::stop_token stop_token() const noexcept { return core_->ask_for_stop_token(); }

 private:
  static detail::on_failure reaction(const scope_options& options) noexcept {
    return options.fail_fast ? detail::on_failure::stop : detail::on_failure::go_on;
  }

  executor_ref executor_;
  detail::scope_core* const core_;  // shared with the work that has not ended
};

}  // namespace turnstile
