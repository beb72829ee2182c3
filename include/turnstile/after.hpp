// after.hpp - what an execution waits for before it takes its place in line.
#pragma once

#include <turnstile/detail/awaitable.hpp>

#include <tuple>
#include <utility>

namespace turnstile {

namespace detail {
struct dependencies_access;
}

/// What `after` gives, to be passed to `execute`. A is what was given: T& or T.
template <class... A>
class [[nodiscard("nothing is waited for until it is passed to execute")]] dependencies {
 public:
  explicit dependencies(A&&... all) : all_(std::forward<A>(all)...) {}

 private:
  friend struct detail::dependencies_access;

  std::tuple<A...> all_;
};

/// Names what an execution depends on: tasks, execution_handles, any awaitables.
///
/// `co_await section.execute(after(a, b), body)` awaits them all, without holding the section
/// meanwhile, and then asks for the section: only then does the request get its place in line, and
/// is re-entry noticed. `body` is called with their values, after the data of a `synchronized`:
/// references as references, values as rvalues (as lvalues, if it cannot be called with rvalues),
/// nothing for void.
/// The values live until the execution ends.
///
/// Runs on    the dependencies as in when_all, as part of the awaiting chain
/// Resumes    as execute, also with the error of a dependency. What refuses the request is thrown
///            without a hop, unless a dependency has led elsewhere
/// Throws     the first error of a dependency, after all have ended; then nothing was asked for
/// Cancel     if the token is stopped already, or the deadline is past, they are not awaited
///            either. Once the request is made, token and deadline withdraw it; they do not
///            interrupt the dependencies
/// Lifetime   an lvalue is referred to, an rvalue moved; frames are allocated, one for each that is
///            no task and one more
template <detail::awaitable... A>
dependencies<A...> after(A&&... all) {
  return dependencies<A...>(std::forward<A>(all)...);
}

namespace detail {

struct dependencies_access {
  template <class... A>
  static std::tuple<A...> all(dependencies<A...>&& d) {
    return std::move(d.all_);
  }
};

}  // namespace detail
}  // namespace turnstile
