// when_any.hpp - wait for the first of several awaitables, and stop the others.
//
// Behind it: detail/child.hpp (who has ended), detail/stop_region.hpp (how the others are stopped).
#pragma once

#include <turnstile/detail/atomic.hpp>
#include <turnstile/detail/child.hpp>
#include <turnstile/detail/first_error.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/stop_region.hpp>

#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <ranges>
#include <stdexcept>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace turnstile {

/// What came out of a when_any: which one decided, and what it gave.
template <class V>
struct any_result {
  std::size_t index;
  V value;
};

namespace detail {

// Asks the others to stop when one ends, and knows which one decides: the first that does not end
// with a cancellation, for a cancellation follows from something else.
//
// Edges  relaxed: a place only picks one. It is read by the parent, after N1 of child.hpp
// Proof  test/schedule (when_any); test/stress (control)
class any_ends : public countdown {
 public:
  void note(std::size_t which, const std::exception_ptr& error) noexcept {
    std::size_t none = nobody;
    place& first = is_cancellation(error) ? cancelled_ : decided_;
    first.compare_exchange_strong(none, which, relaxed, relaxed);
    below_.request_stop();
  }

  stop_region& below() noexcept { return below_; }

  // To be returned from the await_suspend of the parent `h`: all of this may be gone.
  template <class P, class Children>
  std::coroutine_handle<> start(std::coroutine_handle<P> h, Children& children, std::size_t n) {
    arm(h, n);
    below_.enter(h);
    return detail::start_in_order(h, children, [&](auto& c, std::size_t which) -> auto& {
      return c.prepare(*this, which, below_.frame(), below_.outside());
    });
  }

  // Once all have ended.
  std::size_t which() const noexcept {
    const std::size_t decided = decided_.load(relaxed);
    return decided != nobody ? decided : cancelled_.load(relaxed);
  }

 private:
  using place = atomic<std::size_t>;
  static constexpr std::size_t nobody = static_cast<std::size_t>(-1);

  place decided_{nobody};
  place cancelled_{nobody};
  stop_region below_;
};

template <class... A>
class [[nodiscard("nothing runs until the result is awaited")]] any_of {
  using value = std::variant<as_value<typename child<A, any_ends>::value>...>;

 public:
  explicit any_of(A&&... a) : children_(std::forward<A>(a)...) {}
  any_of(any_of&& other) : children_(std::move(other.children_)) {}

  bool await_ready() const noexcept { return false; }

  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) {
    return ends_.start(h, children_, sizeof...(A));
  }

  any_result<value> await_resume() {
    ends_.below().leave();
    std::apply([](auto&... c) { (c.adopt_what_it_holds(), ...); }, children_);
    return take(ends_.which(), std::index_sequence_for<A...>());
  }

 private:
  template <std::size_t... Is>
  any_result<value> take(std::size_t which, std::index_sequence<Is...>) {
    std::optional<value> got;
    const auto take_from = [&]<std::size_t i>(std::integral_constant<std::size_t, i>) {
      if (i == which) got.emplace(std::in_place_index<i>, std::get<i>(children_).take());
    };
    (take_from(std::integral_constant<std::size_t, Is>()), ...);
    return {which, std::move(*got)};
  }

  std::tuple<child<A, any_ends>...> children_;
  any_ends ends_;
};

template <class Range>
class [[nodiscard("nothing runs until the result is awaited")]] any_in {
  using element = std::ranges::range_value_t<Range>;
  using one = child<element, any_ends>;
  using value = as_value<typename one::value>;

 public:
  explicit any_in(Range r) : range_(r), children_(children_of<any_ends>(range_.elements(r))) {
    if (children_.empty()) throw std::invalid_argument("turnstile: when_any of nothing");
  }
  any_in(any_in&& other) noexcept
      : range_(std::move(other.range_)),
        children_(std::move(other.children_)),
        once_(std::move(other.once_)) {}

  bool await_ready() noexcept {
    once_.begin();
    return false;
  }

  template <class P>
  std::coroutine_handle<> await_suspend(std::coroutine_handle<P> h) {
    return ends_.start(h, children_, children_.size());
  }

  any_result<value> await_resume() {
    ends_.below().leave();
    for (one& c : children_) c.adopt_what_it_holds();
    const std::size_t which = ends_.which();
    return {which, children_[which].take()};
  }

 private:
  [[no_unique_address]] rest_of_range<Range> range_;
  std::vector<one> children_;
  any_ends ends_;
  for_once<"when_any", "waits for its children"> once_;
};

}  // namespace detail

/// Starts all of them, in order, and resumes when all have ended. When the first one ends, the
/// others are asked to stop: their current_stop_token says so, and whatever they wait for in the
/// library ends with operation_cancelled. What does not wait in the library runs to its end, so it
/// should look at its token.
///
/// The first one to end decides, by its value or its error; only a cancellation leaves that to the
/// next one, because it follows from something else. What the others give is dropped, also what a
/// handle gives (which must not be awaited again then) and the error that a scope's join takes: use
/// timeout, or keep such a result in a task of its own.
///
/// Gives      which one, and what it gave: a variant, with monostate for void and reference_wrapper
///            for references
/// Threads    awaited once, on any thread; the children may end on any
/// Memory     the awaiter sees what all of them wrote
/// Progress   does not block a thread. One inside another, again and again, needs stack for each
///            unless it is the last child, and where a stop is requested: see timeout.hpp
/// Runs on    each until it first suspends on the awaiting thread, then wherever it is resumed
/// Resumes    where the last one ended
/// Throws     the error of the one that decides; operation_cancelled if all were cancelled
/// Cancel     a stop of what surrounds it is passed on to all of them
/// Lifetime   rvalues are kept in the awaiting frame; a stop state is allocated, and one frame for
///            each child that is not a task
template <detail::awaitable... A>
  requires(sizeof...(A) != 0)
auto when_any(A&&... a) {
  return detail::any_of<A...>(std::forward<A>(a)...);
}

/// The same for a range of awaitables, given by value, as when_all takes one: the value alone,
/// monostate for void. An empty range: std::invalid_argument.
template <class Range>
  requires detail::range_of_awaitables<std::decay_t<Range>> && (!detail::must_be_moved<Range>)
auto when_any(Range&& range) {
  return detail::any_in<std::decay_t<Range>>(std::forward<Range>(range));
}
// The line that compilers show says what to do.
template <class Range>
  requires detail::range_of_awaitables<std::decay_t<Range>> && detail::must_be_moved<Range>
void when_any(Range&&) = delete;  // what is in it cannot be copied: when_any(std::move(tasks))

}  // namespace turnstile
