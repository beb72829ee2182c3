// live_sections.cpp - the sections that are alive. The protocol is in living.hpp.

#include "registry/live_sections.hpp"

#include <turnstile/detail/looking.hpp>
#include <turnstile/registry.hpp>

#include <algorithm>
#include <string>

namespace turnstile {

namespace detail {

namespace {

// A checker wants all memory back at the end of each execution; it drives tables of its own, and
// here gets numbers only.
constexpr bool listed = limit(true, false);

// Its number apart: the section may not know it yet.
section_record look(const section_core& s, std::uint32_t id) {
  return {id, std::string(s.name()), std::string(s.container()), s.statistics()};
}

// Never destroyed: sections may end with static objects.
union lasting_table {
  constexpr lasting_table() noexcept : all() {}
  ~lasting_table() {}
  living<section_core> all;
};

constinit lasting_table listed_sections;

}  // namespace

living<section_core>& all_sections() { return listed_sections.all; }

std::uint32_t enlist(section_core& s) {
  if constexpr (listed) {
    std::uint32_t id = listed_sections.all.add(s);
    if (id == 0) [[unlikely]] {  // after 2^32 sections; it means nobody (claims.hpp)
      id = listed_sections.all.add(s);
      listed_sections.all.remove(s, 0);
    }
    watch_if_asked(s);
    return id;
  } else {
    static constinit statistic<std::uint32_t> last{0};
    return last.fetch_add(1, relaxed) + 1;
  }
}

void delist([[maybe_unused]] section_core& s, [[maybe_unused]] std::uint32_t id) noexcept {
  if constexpr (listed) listed_sections.all.remove(s, id);
}

}  // namespace detail

std::vector<section_record> registry::sections() {
  std::vector<section_record> all;
  detail::all_sections().look_at_all(
      [&](const detail::section_core& s, std::uint32_t id) { all.push_back(detail::look(s, id)); });
  std::ranges::sort(all, {}, &section_record::id);
  return all;
}

}  // namespace turnstile
