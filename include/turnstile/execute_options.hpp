// execute_options.hpp - how one execution is made.
#pragma once

#include <turnstile/executor.hpp>

#include <string_view>
#include <type_traits>

namespace turnstile {

/// Read inside the call it is passed to.
struct execute_options {
  /// Label in errors; must outlive the execution (a literal, as a rule).
  std::string_view name = {};
  /// Where the awaiting coroutine goes on; by default where it was running.
  executor_ref resume_on = {};
};

static_assert(std::is_trivially_destructible_v<execute_options>);

namespace detail {

// The default argument of every call. A constant, because g++ builds a temporary in the awaiting frame
// word by word and copies it as vectors, which costs bench/uncontended 5 ns.
inline constexpr execute_options default_execution{};

}  // namespace detail

}  // namespace turnstile
