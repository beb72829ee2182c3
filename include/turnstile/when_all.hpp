// when_all.hpp - wait for several awaitables at once.
#pragma once

#include <turnstile/detail/child.hpp>
#include <turnstile/detail/first_error.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/suspended.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <ranges>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace turnstile {
namespace detail {

// Ends when all have ended.
class all_ends : public countdown {
 public:
  void note(std::size_t, std::exception_ptr error) noexcept { errors_.note(std::move(error)); }
  void throw_first_error() const { errors_.rethrow(); }

 private:
  first_error errors_;
};

// Prepares `n` children, each with a share of `chain`: getting the first one may throw, and nothing
// has begun then.
inline auto all_below(chain_frame* chain, all_ends& left, std::size_t n) noexcept {
  return [=, &left](auto& c, std::size_t which) -> auto& {
    return c.prepare(left, which, which + 1 == n ? chain : share(chain));
  };
}

template <class... A>
class [[nodiscard("nothing runs until the result is awaited")]] all_of {
 public:
  explicit all_of(A&&... a) : children_(std::forward<A>(a)...) {}
  all_of(all_of&& other) : children_(std::move(other.children_)) {}

  bool await_ready() const noexcept { return sizeof...(A) == 0; }

  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) {
    if constexpr (sizeof...(A) == 0) {
      return h;
    } else {
      left_.arm(h, sizeof...(A));
      return detail::start_in_order(h, children_, all_below(chain_for(h), left_, sizeof...(A)));
    }
  }

  auto await_resume() {
    if constexpr (sizeof...(A) == 0) {
      return std::tuple<>{};
    } else {
      std::apply([](auto&... c) { (c.adopt_what_it_holds(), ...); }, children_);
      left_.throw_first_error();
      return std::apply([](auto&... c) { return std::tuple<decltype(c.take())...>{c.take()...}; },
                        children_);
    }
  }

 private:
  std::tuple<child<A, all_ends>...> children_;
  all_ends left_;
};

template <class Range>
class [[nodiscard("nothing runs until the result is awaited")]] all_in {
  using element = std::ranges::range_value_t<Range>;
  using value = typename child<element, all_ends>::value;

 public:
  explicit all_in(Range r) : range_(r), children_(children_of<all_ends>(range_.elements(r))) {}
  all_in(all_in&& other) noexcept
      : range_(std::move(other.range_)),
        children_(std::move(other.children_)),
        once_(std::move(other.once_)) {}

  bool await_ready() {
    once_.begin();
    return children_.empty();
  }

  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) {
    left_.arm(h, children_.size());
    return detail::start_in_order(h, children_, all_below(chain_for(h), left_, children_.size()));
  }

  auto await_resume() {
    for (child<element, all_ends>& c : children_) c.adopt_what_it_holds();
    left_.throw_first_error();
    if constexpr (!std::is_void_v<value>) {
      std::vector<as_value<value>> all;
      all.reserve(children_.size());
      for (child<element, all_ends>& c : children_) all.push_back(c.take());
      return all;
    }
  }

 private:
  [[no_unique_address]] rest_of_range<Range> range_;
  std::vector<child<element, all_ends>> children_;
  all_ends left_;
  for_once<"when_all", "waits for its children"> once_;
};

}  // namespace detail

/// Starts all of them, in order, and resumes when all have ended. Those that are given as fork(a)
/// may run at the same time (fork.hpp).
///
/// Threads    awaited once, on any thread; the children may end on any
/// Memory     the awaiter sees what all of them wrote
/// Progress   does not block a thread. One inside another, again and again, needs stack for each
///            unless it is the last child
/// Runs on    each until it first suspends on the awaiting thread, then wherever it is resumed
/// Resumes    where the last one ended
/// Throws     the error that happened first, after all have ended; operation_cancelled only if
///            there is nothing else
/// Cancel     a stop of what surrounds it reaches all of them
/// Lifetime   rvalues are kept in the awaiting frame, or in an array for a range; one frame is
///            allocated for each child that is not a task
template <detail::awaitable... A>
auto when_all(A&&... a) {
  return detail::all_of<A...>(std::forward<A>(a)...);
}

/// The same for a range of awaitables, given by value: a vector of the results, or void. A view is
/// kept as long as they run; of what it shows, elements that say they can be copied are copied, and
/// others moved.
template <class Range>
  requires detail::range_of_awaitables<std::decay_t<Range>> && (!detail::must_be_moved<Range>)
auto when_all(Range&& range) {
  return detail::all_in<std::decay_t<Range>>(std::forward<Range>(range));
}
// The line that compilers show says what to do.
template <class Range>
  requires detail::range_of_awaitables<std::decay_t<Range>> && detail::must_be_moved<Range>
void when_all(Range&&) = delete;  // what is in it cannot be copied: when_all(std::move(tasks))

}  // namespace turnstile
