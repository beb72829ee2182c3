// shared_names.cpp - sections that are shared by name.

#include <turnstile/critical_section.hpp>

#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace turnstile {

namespace {

using name_key = std::pair<std::string, std::string>;  // container, shared name

struct shared_names {
  std::mutex mutex;
  std::map<name_key, std::weak_ptr<critical_section>> sections;
};

// Never destroyed: sections may be dropped by destructors of static objects.
shared_names& names() {
  static shared_names& all = *new shared_names;
  return all;
}

// Takes the name out when the last holder lets go, unless a new section has it already.
void forget(const name_key& key, critical_section* section) {
  {
    const std::lock_guard lock(names().mutex);
    const auto at = names().sections.find(key);
    if (at != names().sections.end() && at->second.expired()) names().sections.erase(at);
  }
  delete section;
}

}  // namespace

std::shared_ptr<critical_section> critical_section::open(std::string_view shared_name,
                                                         std::string_view container) {
  if (shared_name.empty()) {
    throw std::invalid_argument("turnstile: critical_section::open needs a name to share");
  }
  const name_key key{container, shared_name};
  const std::lock_guard lock(names().mutex);
  std::weak_ptr<critical_section>& known = names().sections[key];
  if (auto section = known.lock()) return section;
  std::shared_ptr<critical_section> section(new critical_section({.name = shared_name}, container),
                                            [key](critical_section* s) { forget(key, s); });
  known = section;
  return section;
}

}  // namespace turnstile
