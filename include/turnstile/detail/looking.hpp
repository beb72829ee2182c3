// looking.hpp - what sections and requests tell the registry.
#pragma once

#include <turnstile/detail/chain.hpp>

#include <cstdint>

namespace turnstile {

class resource_list;

namespace detail {

// From the end of its constructor to the beginning of its destructor a section can be looked at.
// Gives its number.
std::uint32_t enlist(section_core& s);
void delist(section_core& s, std::uint32_t id) noexcept;

// An execution was accepted, in a section that is recorded.
void record_execution(const section_core& s, const site& at, const resource_list& uses) noexcept;
// It was not accepted after all.
void forget_execution(const section_core& s, const site& at) noexcept;

// The chain `held` asks for `s` and would wait for it. Frames at the same place `at` are of the
// same request.
void note_order(const chain_frame* held, const section_core& s, const site& at) noexcept;

}  // namespace detail
}  // namespace turnstile
