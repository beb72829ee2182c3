// async_scope.hpp - the owner of coroutines that nobody awaits one by one.
//
// Behind it: lib/resume.
#pragma once

#include <turnstile/detail/branch.hpp>
#include <turnstile/detail/scope_core.hpp>
#include <turnstile/executor.hpp>

#include <source_location>
#include <utility>

namespace turnstile {

struct scope_options {
  executor_ref executor = {};  ///< where spawned work starts; default: on the calling thread
};

namespace detail {
inline constexpr scope_options default_scope{};
}

/// Starts coroutines and waits for all of them.
///
/// Threads    spawn and join from any thread
/// Runs on    the scope's executor, else the spawning thread until the work first suspends
/// Resumes    a joining coroutine on the executor it was running on
/// Throws     spawn: bad_alloc, and then the work did not start. join: the first error of the work
///            spawned, once, after all of it has ended
/// Lifetime   must be joined, or its work have ended, before it is destroyed; an error that no join
///            took goes to on_unobserved_error
class async_scope {
 public:
  explicit async_scope(const scope_options& options = detail::default_scope)
      : executor_(options.executor), core_(new detail::scope_core) {}
  ~async_scope() { core_->abandon(); }
  async_scope(const async_scope&) = delete;
  async_scope& operator=(const async_scope&) = delete;

  template <detail::awaitable A>
  void spawn(A&& a, std::source_location where = std::source_location::current()) {
    // By value, also of an lvalue: nobody says how long that lives.
    using kept_here = std::remove_cvref_t<A>;
    auto* const work = new detail::spawned<kept_here>(*core_, kept_here(std::forward<A>(a)), where);
    core_->add();
    work->start(executor_);
  }

  auto join(std::source_location where = std::source_location::current()) {
    return detail::join_awaiter(*core_, where);
  }

 private:
  executor_ref executor_;
  detail::scope_core* const core_;  // shared with the work that has not ended
};

}  // namespace turnstile
