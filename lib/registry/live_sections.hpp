// live_sections.hpp - all sections that are alive.
#pragma once

#include "registry/living.hpp"

#include <turnstile/detail/section_core.hpp>

namespace turnstile::detail {

living<section_core>& all_sections();

// A section that can be looked at since a moment ago.
void watch_if_asked(section_core& s) noexcept;

}  // namespace turnstile::detail
