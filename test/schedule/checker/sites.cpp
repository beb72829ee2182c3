// sites.cpp - a table of the places in the source where operations stand.

#include "schedule/checker/sites.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace schedule {

namespace {

constexpr std::size_t table_size = 1024;
constexpr std::array order_names{"relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst"};

struct used_order {
  action by;
  std::memory_order order;
};

struct known_site {
  site at;
  bool contended = false;
  std::array<std::optional<used_order>, 2> orders;
};

// file:line:column:which=order, as SCHEDULE_WEAKEN gives it.
struct weakening {
  std::string place;
  int which;
  std::memory_order to;
};

std::memory_order order_called(std::string_view name) {
  for (std::size_t i = 0; i != order_names.size(); ++i) {
    if (name == order_names[i]) return static_cast<std::memory_order>(i);
  }
  fail("SCHEDULE_WEAKEN names no memory order");
}

std::optional<weakening> chosen_weakening() {
  const char* const text = std::getenv("SCHEDULE_WEAKEN");
  if (text == nullptr) return std::nullopt;
  const std::string_view all = text;
  const std::size_t equals = all.find('=');
  require(equals != all.npos && equals > 2, "SCHEDULE_WEAKEN is not file:line:column:which=order");
  return weakening{std::string(all.substr(0, equals - 2)), all[equals - 1] - '0',
                   order_called(all.substr(equals + 1))};
}

struct table {
  std::array<site_id, table_size> slots{};
  std::vector<known_site> sites{1};  // the first is no_site
  std::size_t contended = 0;
  std::optional<weakening> weaken = chosen_weakening();
  site_id weak_site = no_site;
};

table& all() {
  static table t;
  return t;
}

bool same(const site& a, const site& b) noexcept {
  return a.line() == b.line() && a.column() == b.column() &&
         (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
}

std::string_view base_name(std::string_view path) noexcept {
  return path.substr(path.rfind('/') + 1);
}

}  // namespace

site_id id_of(const site& at) noexcept {
  table& t = all();
  std::size_t i = (at.line() * 2654435761u + at.column() * 40503u) % table_size;
  for (; t.slots[i] != no_site; i = (i + 1) % table_size) {
    if (same(t.sites[t.slots[i]].at, at)) return t.slots[i];
  }
  const auto id = static_cast<site_id>(t.sites.size());
  t.sites.push_back({at, false, {}});
  t.slots[i] = id;
  if (t.weaken && t.weaken->place == name_of(id) + ':' + std::to_string(at.column())) {
    t.weak_site = id;
  }
  return id;
}

const site& site_of(site_id id) noexcept { return all().sites[id].at; }

std::string name_of(site_id id) {
  if (id == no_site) return "-";
  const site& at = site_of(id);
  return std::string(base_name(at.file_name())) + ':' + std::to_string(at.line());
}

bool is_contended(site_id id) noexcept { return all().sites[id].contended; }

void mark_contended(site_id id) noexcept {
  if (std::exchange(all().sites[id].contended, true) == false) ++all().contended;
}

std::size_t contended_sites() noexcept { return all().contended; }

std::memory_order weakened(site_id id, int which, action a, std::memory_order o) noexcept {
  table& t = all();
  t.sites[id].orders[static_cast<std::size_t>(which)] = {a, o};
  return id == t.weak_site && id != no_site && which == t.weaken->which ? t.weaken->to : o;
}

void write_sites() {
  const char* const path = std::getenv("SCHEDULE_SITES");
  if (path == nullptr) return;
  std::FILE* const out = std::fopen(path, "a");
  require(out != nullptr, "the file that SCHEDULE_SITES names cannot be written");
  for (std::size_t id = 1; id != all().sites.size(); ++id) {
    const known_site& s = all().sites[id];
    for (std::size_t which = 0; which != 2; ++which) {
      if (!s.orders[which]) continue;
      std::fprintf(out, "%s:%u:%u:%zu %c %s\n", s.at.file_name(), s.at.line(), s.at.column(), which,
                   static_cast<char>(s.orders[which]->by),
                   order_names[static_cast<std::size_t>(s.orders[which]->order)]);
    }
  }
  std::fclose(out);
}

}  // namespace schedule
