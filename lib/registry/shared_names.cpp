// shared_names.cpp - sections that are shared by name. The protocol is in the header.

#include "registry/shared_names.hpp"

#include <turnstile/critical_section.hpp>
#include <turnstile/detail/claims.hpp>
#include <turnstile/execute.hpp>

#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace turnstile {

namespace {

using detail::name_key;
using detail::shared_name;

class last_holder {
 public:
  explicit last_holder(name_key name) noexcept : name_(std::move(name)) {}

  void comes_to(std::shared_ptr<shared_name> place) noexcept { place_ = std::move(place); }

  void operator()(critical_section* section) noexcept {
    if (const std::shared_ptr<shared_name> place = std::move(place_)) {
      detail::give_up_claims(detail::section_access::core(*section));
      leave(*place);
    }
    delete section;  // which may block, so nobody waits for that
  }

 private:
  void leave(shared_name& place) const noexcept {
    const std::lock_guard lock(place.lock);
    place.section.reset();
    place.forgotten = true;
    detail::forget_place(name_);
    place.left.notify_all();
  }

  name_key name_;
  std::shared_ptr<shared_name> place_;
};

// Null if the place is forgotten.
std::shared_ptr<critical_section> open_at(const std::shared_ptr<shared_name>& place,
                                          const name_key& name, auto&& make) {
  std::unique_lock lock(place->lock);
  if (auto section = place->section.lock()) return section;
  if (place->has_been_shared) place->left.wait(lock, [&] { return place->forgotten; });
  if (place->forgotten) return nullptr;
  last_holder end(name);  // before there is a section that it could leave without an end
  std::shared_ptr<critical_section> section(make(), std::move(end));
  // Not before that has succeeded, for if it throws the deleter is called under the lock.
  std::get_deleter<last_holder>(section)->comes_to(place);
  place->section = section;
  place->has_been_shared = true;
  return section;
}

}  // namespace

std::shared_ptr<critical_section> critical_section::open(std::string_view shared_name,
                                                         std::string_view container) {
  if (shared_name.empty()) {
    throw std::invalid_argument("turnstile: critical_section::open needs a name to share");
  }
  const auto make = [&] { return new critical_section({.name = shared_name}, container); };
  const name_key name{container, shared_name};
  for (;;) {
    if (auto section = open_at(detail::place_of(name), name, make)) return section;
  }
}

}  // namespace turnstile
