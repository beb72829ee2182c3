// section_options.hpp - how a section is made.
#pragma once

#include <turnstile/executor.hpp>

#include <cstddef>
#include <string_view>
#include <type_traits>

namespace turnstile {

/// Read inside the constructor it is passed to; the section copies the name.
struct section_options {
  std::string_view name = {};     ///< label in errors and statistics; does not share
  executor_ref executor = {};     ///< bodies run only there; default: on whoever drains
  std::size_t ring_capacity = 8;  ///< cells, a power of two; never a limit on waiters
};

static_assert(std::is_trivially_destructible_v<section_options>);

}  // namespace turnstile
