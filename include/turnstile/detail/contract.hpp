// contract.hpp - what happens when a caller breaks the contract: one line, then abort.
#pragma once

#include <exception>
#include <source_location>
#include <string_view>

namespace turnstile::detail {

/// Prints `turnstile: section "NAME": WHAT (FILE:LINE)` to stderr and aborts, in every build.
[[noreturn]] void contract_break(std::string_view section, std::string_view what,
                                 std::source_location where) noexcept;

/// Hands an error that nobody can take to the handler of on_unobserved_error.
void report_unobserved(std::exception_ptr error, std::string_view section,
                       std::source_location where) noexcept;

}  // namespace turnstile::detail
