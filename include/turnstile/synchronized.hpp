// synchronized.hpp - data that can only be reached through its section.
//
// Behind it: critical_section.hpp.
#pragma once

#include <turnstile/critical_section.hpp>
#include <turnstile/detail/applied_body.hpp>
#include <turnstile/detail/config.hpp>

#include <functional>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile {

template <class T>
class synchronized;

/// A section_guard that also gives the data: `*g`, `g->member`. Like that one it is movable, and
/// empty by default.
template <class T>
class synchronized_guard {
 public:
  synchronized_guard() noexcept = default;
  synchronized_guard(section_guard guard, T* value) noexcept
      : guard_(std::move(guard)), value_(value) {}

  T& operator*() const noexcept { return *value_; }
  T* operator->() const noexcept { return value_; }

  void unlock() noexcept { guard_.unlock(); }
  void detach() noexcept { guard_.detach(); }
  bool owns_lock() const noexcept { return guard_.owns_lock(); }
  explicit operator bool() const noexcept { return owns_lock(); }

 private:
  section_guard guard_;
  T* value_ = nullptr;
};

/// A value of type T and the section that guards it, in one.
///
/// Members behave as those of critical_section; bodies are called with `T&`, predicates with `const
/// T&`. What else there is (try_lock, close, name, statistics): through section().
///
/// Threads    as critical_section
/// Throws     the constructors: as that of critical_section, and what T throws
/// Lifetime   as critical_section; the value lives as long as this
template <class T>
class synchronized {
  template <class Body>
  using on_value = detail::applied_body<std::decay_t<Body>, T&>;

 public:
  explicit synchronized(T value = T{}, section_options options = {})
      : section_(options), value_(std::move(value)) {}
  /// The value is made of `args`. There is no room for options of the section.
  template <class... Args>
  explicit synchronized(std::in_place_t, Args&&... args) : value_(std::forward<Args>(args)...) {}

  synchronized(const synchronized&) = delete;
  synchronized& operator=(const synchronized&) = delete;

  template <class Body>
  auto execute(Body&& body, const execute_options& options = detail::default_execution,
               std::source_location where = std::source_location::current()) {
    detail::require_safe_inside_co_await<Body>();
    return detail::execution_awaiter<on_value<Body>>(
        section_.core_, on_value<Body>(std::forward<Body>(body), {value_}), options, where);
  }

  template <class... A, class Body>
  auto execute(dependencies<A...> first, Body&& body,
               const execute_options& options = detail::default_execution,
               std::source_location where = std::source_location::current()) {
    detail::require_safe_inside_co_await<Body>();
    return detail::execute_after<std::decay_t<Body>, std::tuple<T&>, A...>(
        section_.core_, detail::dependencies_access::all(std::move(first)),
        std::forward<Body>(body), std::tuple<T&>(value_), options,
        detail::kept_token(options.stop.token()), detail::lane_of(options.on), where);
  }

  template <class Pred, class Body>
  auto execute_when(Pred&& pred, Body&& body,
                    const execute_options& options = detail::default_execution,
                    std::source_location where = std::source_location::current()) {
    detail::require_safe_inside_co_await<Pred>();
    detail::require_safe_inside_co_await<Body>();
    detail::require_host_body<on_value<Body>>();
    static_assert(std::is_invocable_v<std::decay_t<Pred>&, const T&>,
                  "the predicate of a synchronized is called with a const reference to its value");
    using asked = detail::applied_body<std::decay_t<Pred>, const T&>;
    return detail::when_awaiter<asked, on_value<Body>>(
        section_.core_, asked(std::forward<Pred>(pred), {value_}),
        on_value<Body>(std::forward<Body>(body), {value_}), options, where);
  }

  template <class Body>
  auto try_execute(Body&& body, std::source_location where = std::source_location::current()) {
    detail::require_host_body<on_value<Body>>();
    detail::require_copyable_lvalue<Body>();
    if constexpr (detail::require_callable<on_value<Body>>()) {
      return section_.try_execute(
          [&]() -> decltype(auto) {
            detail::tried_body<Body> own(body);
            return std::invoke(own, value_);
          },
          where);
    }
  }

  template <class Body>
  auto submit(Body&& body, const execute_options& options = detail::default_execution,
              std::source_location where = std::source_location::current()) {
    detail::require_copyable_lvalue<Body>();
    return section_.submit(on_value<Body>(std::forward<Body>(body), {value_}), options, where);
  }

  template <class Body>
  void post(Body&& body, const execute_options& options = detail::default_execution,
            std::source_location where = std::source_location::current()) {
    detail::require_copyable_lvalue<Body>();
    section_.post(on_value<Body>(std::forward<Body>(body), {value_}), options, where);
  }

  template <class Body>
  detail::body_result_t<on_value<Body>> execute_blocking(
      Body&& body, const execute_options& options = detail::default_execution,
      std::source_location where = std::source_location::current()) {
    detail::require_copyable_lvalue<Body>();
    return section_.execute_blocking(on_value<Body>(std::forward<Body>(body), {value_}), options,
                                     where);
  }

  TURNSTILE_INLINE auto lock(const execute_options& options = detail::default_execution,
                             std::source_location where = std::source_location::current()) {
    return detail::lock_awaiter<synchronized_guard<T>, T>(section_.core_, options, where, &value_);
  }

  critical_section& section() noexcept { return section_; }

 private:
  friend struct detail::section_access;

  critical_section section_;
  T value_;
};

}  // namespace turnstile
