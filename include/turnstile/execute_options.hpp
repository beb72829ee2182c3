// execute_options.hpp - how one execution is made.
#pragma once

#include <turnstile/executor.hpp>
#include <turnstile/resource.hpp>

#include <chrono>
#include <memory>
#include <stop_token>
#include <string_view>
#include <type_traits>

namespace turnstile {

class stream;

/// No deadline.
inline constexpr auto never = (std::chrono::steady_clock::time_point::max)();

/// Refers to a token for the length of the call that it is passed to.
class stop_ref {
 public:
  constexpr stop_ref() noexcept = default;
  stop_ref(const std::stop_token& token) noexcept : token_(std::addressof(token)) {}

  /// Null: no token was given.
  constexpr const std::stop_token* token() const noexcept { return token_; }

 private:
  const std::stop_token* token_ = nullptr;
};

/// Read inside the call it is passed to. Only a view: do not store options made from a temporary
/// token, and do not take options as a coroutine parameter.
struct execute_options {
  /// Label in errors; must outlive the execution (a literal, as a rule).
  std::string_view name = {};
  /// What the body uses: claimed for the section when the request is made, see resource.hpp.
  resource_list uses = {};
  /// False: the body only reads what it uses or touches, so other sections that also say so may use
  /// it too.
  bool exclusive_resource_access = true;
  /// Withdraws the request while it waits. The token is copied in the call.
  stop_ref stop = {};
  /// Withdraws the request if its turn has not come by then. The process's first wait for a time
  /// needs a thread: `std::system_error` if it cannot be started, and nothing was asked for.
  std::chrono::steady_clock::time_point deadline = never;
  /// Where the awaiting coroutine resumes; by default where it was running.
  executor_ref resume_on = {};
  /// Device executions: where the body submits; by default to the section's own stream. What an
  /// enqueued callable throws goes to the next place in that stream that is awaited, which is
  /// another section's if that submits there in between. So a stream onto which bodies `enqueue`
  /// callables that may throw should belong to one section.
  stream* on = nullptr;
};

static_assert(std::is_trivially_destructible_v<execute_options>);

namespace detail {

// The default argument of every call. A constant, because g++ builds a temporary in the awaiting
// frame word by word and copies it as vectors, which the store buffer cannot forward
// (bench/tried.md).
inline constexpr execute_options default_execution{};

}  // namespace detail

}  // namespace turnstile
