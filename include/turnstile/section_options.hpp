// section_options.hpp - how a section is made.
#pragma once

#include <turnstile/device.hpp>
#include <turnstile/executor.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace turnstile {

/// What happens to a request that comes when `max_waiters` are already waiting.
enum class when_full : unsigned char {
  refuse,        ///< it gets `section_full`
  wait_outside,  ///< it waits, in order, to be accepted
};

/// When the next body may begin after one that only submitted work to a device.
enum class release {
  submission,  ///< at once: the device keeps the order
  completion,  ///< when that work is done, so that its outcome can be looked at first
};

/// Read inside the constructor it is passed to; the section copies the name.
struct section_options {
  std::string_view name = {};  ///< label in errors and statistics; does not share
  executor_ref executor = {};  ///< bodies run only there; default: on the thread that serves
  /// Where the guarded data is, and the section's own stream (with `any()` that is on the host).
  /// Resources and streams elsewhere are refused, but resources on the host only to device
  /// executions.
  device place = device::any();
  std::size_t ring_capacity = 8;  ///< cells, a power of two; never a limit on waiters
  /// Requests that may wait at once, queued or set aside; 0: no limit. With wait_outside, a request
  /// of execute_when that finds the section idle may be set aside beyond the limit, and one that is
  /// outside has claimed what it uses.
  std::size_t max_waiters = 0;
  std::size_t max_in_flight = 64;  ///< device executions submitted and not complete; at least 1
  release hand_on = release::submission;  ///< of device executions
  when_full on_full = when_full::refuse;  ///< with max_waiters
};

static_assert(std::is_trivially_destructible_v<section_options>);

}  // namespace turnstile
