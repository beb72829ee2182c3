// cds_maps.cpp - identities of plain addresses, and shared names, for the checker: libcds is not
// driven by it, so here every look is one under the lock. No scenario shares a name.

#include "registry/addresses.hpp"
#include "registry/shared_names.hpp"

#include <map>

namespace turnstile::detail {

namespace {

std::map<const void*, resource_identity> addresses;

}  // namespace

bool claimed_by_address(const void*, const section_core&, bool) { return false; }

const resource_identity* find_address(const void* address) {
  const auto at = addresses.find(address);
  return at == addresses.end() ? nullptr : &at->second;
}

const resource_identity& make_address(const void* address) {
  return addresses.try_emplace(address).first->second;
}

void forget_address(const void* address) noexcept { addresses.erase(address); }

std::shared_ptr<shared_name> place_of(const name_key&) { return std::make_shared<shared_name>(); }
void forget_place(const name_key&) noexcept {}

}  // namespace turnstile::detail
