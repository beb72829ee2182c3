// spares.hpp - stand-ins that a thread has done with, kept for its next requests.
//
// A stand-in of a section that is still there costs a thread a few stores then, instead of an
// allocation and two atomic operations on what all of the section's stand-ins share. Measured:
// bench/tried.md.
#pragma once

#include <turnstile/detail/config.hpp>

#include <cstdint>

namespace turnstile::detail {

class stand_in;

// In units of stand-ins a thread. None where a use after the end shall be found.
#if defined(TURNSTILE_ATOMIC_SEAM) || defined(TURNSTILE_ADDRESS_SANITIZER)
inline constexpr std::uint32_t most_spares = 0;
#else
inline constexpr std::uint32_t most_spares = 256;
#endif

// Null: it keeps none.
stand_in* take_spare() noexcept;
// Nobody else has it. False: it is not kept.
[[nodiscard]] bool keep_spare(stand_in& s) noexcept;

}  // namespace turnstile::detail
