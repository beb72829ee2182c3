// claims.cpp - claiming and giving up. The protocol is in detail/claims.hpp.

#include "registry/addresses.hpp"

#include <turnstile/detail/chain.hpp>
#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/several_request.hpp>
#include <turnstile/detail/threads.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/resource.hpp>

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace turnstile {

namespace detail {

// One section's claim on one resource; each field by whether exclusive.
struct claim_state {
  section_claims* by;
  std::array<guarded<unsigned>, 2> asked{0u, 0u};  // requests whose turn has not come
  std::array<guarded<bool>, 2> kept{false, false};

  bool exclusive() const noexcept { return asked[true] != 0 || kept[true]; }
  bool any() const noexcept { return exclusive() || asked[false] != 0 || kept[false]; }
};

namespace {

using thing = std::pair<const void*, bool>;  // as in resource_ref

// Guards every `rest` and section_claims, but for `known`.
mutex claims_lock;

}  // namespace

struct resource_identity::rest {
  rest(std::string_view n, device p) : name(n), place(p) {}

  const std::string name;
  const device place;
  std::map<std::uint32_t, claim_state> claimants;  // by the section's number
};

struct section_claims {
  explicit section_claims(const section_core& s) : section(s) {}

  atomic<const resource_identity*>& known_place(const resource_identity& r) noexcept {
    return known[reinterpret_cast<std::uintptr_t>(&r) / sizeof r % known.size()];
  }

  const section_core& section;
  std::map<thing, const resource_identity*> resources;
  std::array<atomic<const resource_identity*>, 8> known{};
};

// All but claimed_alone and claimed_already under the lock.
struct claims_book {
  // By the section of that number, and as far as the word says.
  static bool claimed_alone(const resource_identity& r, std::uint32_t section,
                            bool exclusive) noexcept {
    using id = resource_identity;
    return r.claimed_by(section) ||
           (!exclusive && r.word_.load(relaxed) == id::sole(id::sole_shared, section));
  }

  static bool claimed_already(const resource_identity& r, const section_core& s,
                              bool exclusive) noexcept {
    if (claimed_alone(r, s.id(), exclusive)) return true;
    if (exclusive || r.word_.load(relaxed) != resource_identity::multi_shared) return false;
    section_claims* const mine = s.claims();  // C1
    return mine != nullptr && mine->known_place(r).load(relaxed) == &r;
  }

  // By the section that the frame holds. That of a counted one may end, so its number alone is
  // asked.
  static bool claimed_already(const resource_identity& r, const chain_frame& f,
                              bool exclusive) noexcept {
    if (!is_hold(&f)) return claimed_already(r, *f.section, exclusive);
    return claimed_alone(r, name_of(f).number, exclusive);
  }

  static bool claimed_already(const resource_ref& r, const section_core& s, bool exclusive) {
    return r.by_address_ ? claimed_by_address(r.thing_, s, exclusive)
                         : claimed_already(identity(r), s, exclusive);
  }

  static resource_list unclaimed(const section_core& s, const resource_list& uses, bool exclusive) {
    resource_list left;
    for (std::size_t i = 0; i != uses.size(); ++i) {
      if (!claimed_already(uses[i], s, exclusive)) left.add(uses[i]);
    }
    return left;
  }

  static bool has_identity(const resource_ref& r) noexcept { return !r.by_address_; }
  static const resource_identity& identity(const resource_ref& r) noexcept {
    return *static_cast<const resource_identity*>(r.thing_);
  }
  static const resource_identity* find(const resource_ref& r) {
    return r.by_address_ ? find_address(r.thing_) : &identity(r);
  }
  static thing key(const resource_ref& r) noexcept { return {r.thing_, r.by_address_}; }

  static section_claims& record_of(const section_core& s) {
    if (section_claims* const mine = s.claims()) return *mine;
    auto made = std::make_unique<section_claims>(s);
    s.set_claims(*made);  // C1
    return *made.release();
  }

  static resource_identity::rest& rest_of(const resource_identity& r) {
    if (r.details() == nullptr) {
      r.rest_.store(new resource_identity::rest({}, device::any()), release);  // C2
    }
    return *r.details();
  }

  static void refuse_conflict(const section_core& s, const resource_ref& r, bool exclusive) {
    const resource_identity* const found = find(r);
    if (found == nullptr || found->details() == nullptr) return;
    for (const auto& [section, claim] : found->details()->claimants) {
      if (section == s.id()) continue;
      if (exclusive || claim.exclusive()) {
        throw exclusive_access_error(label(*found, r.thing_), claim.by->section.label(), s.label());
      }
      return;  // who claims exclusively is alone, so the others share too
    }
  }
  static void refuse_conflicts(const section_core& s, const resource_list& uses, bool exclusive) {
    for (std::size_t i = 0; i != uses.size(); ++i) refuse_conflict(s, uses[i], exclusive);
  }

  static device place_of(const resource_ref& r) {
    if (!r.by_address_) {
      const resource_identity::rest* const rest = identity(r).details();
      return rest == nullptr ? device::any() : rest->place;
    }
    const auto ask = device_of_address.load(relaxed);
    const int index = ask == nullptr ? -1 : ask(r.thing_);
    return index < 0 ? device::any() : device::cuda(index);
  }

  // What the host owns may be used by bodies of a section on a GPU, but not by what they submit.
  static void refuse_elsewhere(const section_core& s, const resource_ref& r, bool submits) {
    const device place = s.where();
    if (place.is_any()) return;
    const device found = place_of(r);
    if (found.is_any() || found == place || (found.is_host() && !submits)) return;
    throw device_mismatch_error(label(r), place, found, true);
  }
  static void refuse_elsewhere(const section_core& s, const resource_list& uses, bool submits) {
    for (std::size_t i = 0; i != uses.size(); ++i) refuse_elsewhere(s, uses[i], submits);
  }

  static std::string label(const resource_identity& r, const void* at) {
    return r.name().empty() ? label(at) : std::string(r.name());
  }
  static std::string label(const void* at) {
    std::ostringstream text;
    text << "resource at " << at;
    return text.str();
  }

  static std::string label(const resource_ref& r) {
    const resource_identity* const found = find(r);
    return found == nullptr ? label(r.thing_) : label(*found, r.thing_);
  }

  static void ask(section_claims& mine, const resource_ref& r, bool exclusive) {
    const resource_identity& at = r.by_address_ ? make_address(r.thing_) : identity(r);
    try {
      mine.resources.try_emplace(key(r), &at);
      auto& claimants = rest_of(at).claimants;
      claim_state& c = claimants.try_emplace(mine.section.id(), claim_state{&mine}).first->second;
      c.asked[exclusive] = c.asked[exclusive] + 1;
    } catch (...) {
      drop_unless_claimed(mine, key(r), at);
      throw;
    }
    publish(at);
  }

  static void ask(const section_core& s, const resource_list& uses, bool exclusive) {
    if (uses.empty()) return;
    section_claims& mine = record_of(s);
    std::size_t asked = 0;
    try {
      for (; asked != uses.size(); ++asked) ask(mine, uses[asked], exclusive);
    } catch (...) {
      while (asked != 0) withdraw(mine, uses[--asked], exclusive);
      throw;
    }
  }

  static bool is_claimed_at_all(const section_core& s, const resource_ref& r) noexcept {
    section_claims* const mine = s.claims();  // C1
    return mine != nullptr && find_claim(*mine, r) != nullptr;
  }

  // Null if the resource has ended meanwhile.
  static claim_state* find_claim(section_claims& mine, const resource_ref& r) noexcept {
    const auto at = mine.resources.find(key(r));
    if (at == mine.resources.end()) return nullptr;
    return &at->second->details()->claimants.find(mine.section.id())->second;
  }

  // Null also if there is another one at its place, of which this has not been asked.
  static claim_state* asked_for(section_claims& mine, const resource_ref& r,
                                bool exclusive) noexcept {
    claim_state* const c = find_claim(mine, r);
    return c == nullptr || c->asked[exclusive] == 0 ? nullptr : c;
  }

  static resource_list claimed_at_all(const section_core& s, const resource_list& uses) noexcept {
    resource_list found;
    for (std::size_t i = 0; i != uses.size(); ++i) {
      if (is_claimed_at_all(s, uses[i])) found.add(uses[i]);
    }
    return found;
  }

  static void share_out(held_section* all, std::size_t n, resource_list left) noexcept {
    for (std::size_t i = 0; i != n; ++i) {
      all[i].claims = i + 1 == n ? left : claimed_at_all(*all[i].section, left);
      left = left.without(all[i].claims);
    }
  }

  static void keep(section_claims& mine, const resource_ref& r, bool exclusive) noexcept {
    claim_state* const c = asked_for(mine, r, exclusive);
    if (c == nullptr) return;
    const resource_identity& at = *mine.resources.find(key(r))->second;
    c->asked[exclusive] = c->asked[exclusive] - 1;
    c->kept[exclusive] = true;
    mine.known_place(at).store(&at, relaxed);
    publish(at);
  }

  static void withdraw(section_claims& mine, const resource_ref& r, bool exclusive) noexcept {
    claim_state* const c = asked_for(mine, r, exclusive);
    if (c == nullptr) return;
    c->asked[exclusive] = c->asked[exclusive] - 1;
    drop_unless_claimed(mine, key(r), *mine.resources.find(key(r))->second);
  }
  static void withdraw(const section_core& s, const resource_list& uses, bool exclusive) noexcept {
    if (uses.empty()) return;
    section_claims& mine = record_of(s);
    for (std::size_t i = 0; i != uses.size(); ++i) withdraw(mine, uses[i], exclusive);
  }

  static void drop_unless_claimed(section_claims& mine, const thing& t,
                                  const resource_identity& r) noexcept {
    if (r.details() != nullptr) {
      auto& claimants = r.details()->claimants;
      const auto at = claimants.find(mine.section.id());
      if (at != claimants.end() && at->second.any()) return;
      if (at != claimants.end()) claimants.erase(at);
    }
    mine.resources.erase(t);
    settle(t, r);
  }

  static void give_up(section_claims& mine) noexcept {
    for (const auto& [t, r] : mine.resources) {
      r->details()->claimants.erase(mine.section.id());
      settle(t, *r);
    }
    mine.resources.clear();
  }

  // After a claimant has gone.
  static void settle(const thing& t, const resource_identity& r) noexcept {
    publish(r);
    const auto& [address, by_address] = t;
    if (!by_address || (r.details() != nullptr && !r.details()->claimants.empty())) return;
    delete r.details();
    r.rest_.store(nullptr, relaxed);
    forget_address(address);
  }

  static void publish(const resource_identity& r) noexcept { r.word_.store(word_of(r), relaxed); }

  static std::uint64_t word_of(const resource_identity& r) noexcept {
    using id = resource_identity;
    if (r.details() == nullptr || r.details()->claimants.empty()) return id::none;
    if (r.details()->claimants.size() > 1) return id::multi_shared;
    const auto& [section, c] = *r.details()->claimants.begin();
    if (c.kept[true]) return id::sole(id::sole_exclusive, section);
    return c.kept[false] ? id::sole(id::sole_shared, section) : std::uint64_t{id::none};
  }

  static void forget_claims_on(const resource_identity& r) noexcept {
    for (const auto& [section, claim] : r.details()->claimants) {
      section_claims& by = *claim.by;
      by.resources.erase({&r, false});
      if (by.known_place(r).load(relaxed) == &r) by.known_place(r).store(nullptr, relaxed);
    }
  }
};

resource_identity::resource_identity(std::string_view name, device place)
    : rest_(name.empty() && place.is_any() ? nullptr : new rest(name, place)) {}

std::string_view resource_identity::name() const noexcept {
  const rest* const r = details();
  return r == nullptr ? std::string_view{} : std::string_view(r->name);
}

void resource_identity::end() noexcept {
  {
    const std::lock_guard lock(claims_lock);
    claims_book::forget_claims_on(*this);
  }
  delete details();
}

bool claimed_already(const resource_identity& r, const section_core& s, bool exclusive) noexcept {
  return claims_book::claimed_already(r, s, exclusive);
}

namespace {

TURNSTILE_COLD void claim_new(const section_core& s, const resource_list& uses, bool exclusive) {
  const std::lock_guard lock(claims_lock);
  claims_book::refuse_elsewhere(s, uses, false);
  claims_book::refuse_conflicts(s, uses, exclusive);
  claims_book::ask(s, uses, exclusive);
}

TURNSTILE_COLD void claim_new_together(held_section* all, std::size_t n, const resource_list& left,
                                       bool exclusive) {
  const std::lock_guard lock(claims_lock);
  std::size_t asked = 0;
  try {
    claims_book::share_out(all, n, left);
    for (std::size_t i = 0; i != n; ++i) {
      claims_book::refuse_conflicts(*all[i].section, all[i].claims, exclusive);
    }
    for (; asked != n; ++asked) {
      claims_book::ask(*all[asked].section, all[asked].claims, exclusive);
    }
  } catch (...) {
    for (std::size_t i = 0; i != n; ++i) {
      if (i < asked) claims_book::withdraw(*all[i].section, all[i].claims, exclusive);
      all[i].claims = {};
    }
    throw;
  }
}

}  // namespace

bool claim(const section_core& s, const resource_list& uses, bool exclusive) {
  for (std::size_t i = 0; i != uses.size(); ++i) {
    if (claims_book::claimed_already(uses[i], s, exclusive)) [[likely]]
      continue;
    claim_new(s, uses, exclusive);
    return true;
  }
  return false;
}

void claim_together(held_section* all, std::size_t n, const resource_list& uses, bool exclusive) {
  resource_list left = uses;
  for (std::size_t i = 0; i != n; ++i) {
    left = claims_book::unclaimed(*all[i].section, left, exclusive);
  }
  if (!left.empty()) [[unlikely]]
    claim_new_together(all, n, left, exclusive);
}

void refuse_elsewhere(const section_core& s, const resource_list& uses, bool submits) {
  const std::lock_guard lock(claims_lock);
  claims_book::refuse_elsewhere(s, uses, submits);
}

bool are_claimed(const section_core& s, const resource_list& uses, bool exclusive) noexcept {
  for (std::size_t i = 0; i != uses.size(); ++i) {
    const resource_ref r = uses[i];
    if (!claims_book::has_identity(r) ||
        !claims_book::claimed_already(claims_book::identity(r), s, exclusive))
      return false;
  }
  return true;
}

std::vector<std::string> labels_of(const resource_list& uses) {
  const std::lock_guard lock(claims_lock);
  std::vector<std::string> labels;
  for (std::size_t i = 0; i != uses.size(); ++i) labels.push_back(claims_book::label(uses[i]));
  return labels;
}

void keep_claims(const section_core& s, const resource_list& uses, bool exclusive) noexcept {
  const std::lock_guard lock(claims_lock);
  section_claims& mine = claims_book::record_of(s);
  for (std::size_t i = 0; i != uses.size(); ++i) claims_book::keep(mine, uses[i], exclusive);
}

void withdraw_claims(const section_core& s, const resource_list& uses, bool exclusive) noexcept {
  const std::lock_guard lock(claims_lock);
  claims_book::withdraw(s, uses, exclusive);
}

void give_up_claims(const section_core& s) noexcept {
  const std::lock_guard lock(claims_lock);
  if (section_claims* const all = s.claims()) claims_book::give_up(*all);  // C1
}

void end_claims(section_claims& all) noexcept {
  {
    const std::lock_guard lock(claims_lock);
    claims_book::give_up(all);
  }
  delete &all;
}

namespace {

// The next frame of the request that `f` is of: it holds several sections.
const chain_frame* next_of_request(const chain_frame& f) noexcept {
  const chain_frame* const below = f.parent;
  return below != nullptr && below->at == f.at && holds_section(*below) ? below : nullptr;
}

// For good at once, as the section is held. It stays until the lock is let go: C3.
TURNSTILE_COLD void claim_touched(const resource_identity& r) {
  const std::lock_guard lock(claims_lock);
  const chain_frame* const held = innermost_held();
  if (held == nullptr) return;
  const bool exclusive = held->at->exclusive();
  const section_core* by = held->section;
  for (const chain_frame* f = held; f != nullptr; f = next_of_request(*f)) {
    if (claims_book::claimed_already(r, *f->section, exclusive)) return;
    if (claims_book::is_claimed_at_all(*f->section, r)) by = f->section;
  }
  claims_book::refuse_elsewhere(*by, resource_ref(r), false);
  claims_book::refuse_conflict(*by, r, exclusive);
  section_claims& mine = claims_book::record_of(*by);
  claims_book::ask(mine, r, exclusive);
  claims_book::keep(mine, r, exclusive);
}

}  // namespace

void wait_for_touches() noexcept { const std::lock_guard begins_before_this(claims_lock); }

void touch_held(const resource_identity& r) {
  const chain_frame* const held = innermost_held();
  if (held == nullptr) return;
  const bool exclusive = held->at->exclusive();
  for (const chain_frame* f = held; f != nullptr; f = next_of_request(*f)) {
    if (claims_book::claimed_already(r, *f, exclusive)) [[likely]]
      return;
  }
  claim_touched(r);
}

}  // namespace detail

void resource_list::too_long(std::size_t n) {
  throw std::length_error("turnstile: a resource_list of " + std::to_string(n) +
                          " things, and it holds 8");
}

}  // namespace turnstile
