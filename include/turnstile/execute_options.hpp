// execute_options.hpp - how one execution is made.
#pragma once

#include <turnstile/executor.hpp>
#include <turnstile/resource.hpp>

#include <string_view>
#include <type_traits>

namespace turnstile {

/// Read inside the call it is passed to.
struct execute_options {
  /// Label in errors; must outlive the execution (a literal, as a rule).
  std::string_view name = {};
  /// What the body uses: claimed for the section when the request is made, see resource.hpp.
  resource_list uses = {};
  /// False: the body only reads what it uses or touches, so other sections that also say so may use
  /// it too.
  bool exclusive_resource_access = true;
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
