// sites.hpp - the places in the source where operations stand: names for reports, marks for the
// search, and orders that are weakened to see whether anybody notices.
//
// Contended  Two operations at least one of which writes, at one atomic, not ordered by
//            happens-before. A search switches threads only at contended sites: an operation at any
//            other commutes with whatever could run before it, in every execution seen; and when
//            one is seen that says otherwise, its sites are marked and the search starts again.
#pragma once

#include "schedule/checker/world.hpp"

#include <atomic>
#include <cstdint>
#include <string>

namespace schedule {

using site_id = std::uint16_t;
inline constexpr site_id no_site = 0;

site_id id_of(const site& at) noexcept;
const site& site_of(site_id id) noexcept;
std::string name_of(site_id id);

bool is_contended(site_id id) noexcept;
void mark_contended(site_id id) noexcept;
// How many are; grows only.
std::size_t contended_sites() noexcept;

// What an order is given to: a load, a store, or both at once.
enum class action : char { load = 'L', store = 'S', change = 'C' };

// The order to use instead of `o`, the argument number `which` (0 or 1) at this site.
std::memory_order weakened(site_id id, int which, action a, std::memory_order o) noexcept;

// Writes which orders were used where to the file that SCHEDULE_SITES names, if it does.
void write_sites();

}  // namespace schedule
