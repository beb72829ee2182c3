// addresses.hpp - identities of plain addresses.
//
// There is one while a section claims it. All but claimed_by_address are called under the lock of
// claims.cpp, so what they find stays until that is given up.
#pragma once

#include <turnstile/detail/claims.hpp>

namespace turnstile::detail {

// Asked without the lock: `s` has claimed what lies there before.
bool claimed_by_address(const void* address, const section_core& s, bool exclusive);

// Null if there is none.
const resource_identity* find_address(const void* address);
const resource_identity& make_address(const void* address);
// Nobody claims it, and its `rest` is gone: its destructor, which may run at any time from now on
// and on any thread, takes no lock.
void forget_address(const void* address) noexcept;

// In claims.cpp: what claimed_by_address asks about what it finds.
bool claimed_already(const resource_identity& r, const section_core& s, bool exclusive) noexcept;

}  // namespace turnstile::detail
