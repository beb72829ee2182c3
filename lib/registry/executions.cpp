// executions.cpp - the last executions that were accepted.
//
// Shape     Each section has a bit that says whether it is recorded, beside the one its requests
//           look at anyway. Switching goes through all sections; a new one asks for itself
//           (living.hpp, E5).
//           One that is made while recording ends may keep its bit, and its requests find out here.

#include "registry/live_sections.hpp"

#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/registry.hpp>
#include <turnstile/resource.hpp>

#include <algorithm>
#include <deque>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace turnstile {

namespace detail {

namespace {

constinit atomic<bool> recording{false};

struct kept_executions {
  mutex switching;  // who turns it on or off
  mutex lock;       // of what follows
  std::deque<execution_record> all;
  std::size_t most = 0;

  void shrink() {
    while (all.size() > most) all.pop_front();
  }
};

// Never destroyed, as sections().
kept_executions& records() {
  static kept_executions& kept = *new kept_executions;
  return kept;
}

execution_record record_of(const section_core& s, const site& at, const resource_list& uses) {
  return {std::string(at.name()), s.label(), s.id(), labels_of(uses), at.exclusive(), at.where};
}

// As far as anybody can see.
bool same(const execution_record& r, const section_core& s, const site& at) noexcept {
  return r.section_id == s.id() && r.name == at.name() && r.where.line() == at.where.line() &&
         r.where.column() == at.where.column() &&
         std::string_view(r.where.file_name()) == at.where.file_name();
}

}  // namespace

void watch_if_asked(section_core& s) noexcept {
  if (recording.load(relaxed)) s.record(true);  // E5
}

void record_execution(const section_core& s, const site& at, const resource_list& uses) noexcept {
  try {
    execution_record r = record_of(s, at, uses);
    kept_executions& k = records();
    const std::lock_guard lock(k.lock);
    if (k.most == 0) return;
    k.all.push_back(std::move(r));
    k.shrink();
  } catch (...) {  // no memory, no record: the execution itself needs none
  }
}

void forget_execution(const section_core& s, const site& at) noexcept {
  kept_executions& k = records();
  const std::lock_guard lock(k.lock);
  const auto found = std::find_if(k.all.rbegin(), k.all.rend(),
                                  [&](const execution_record& r) { return same(r, s, at); });
  if (found != k.all.rend()) k.all.erase(std::next(found).base());
}

}  // namespace detail

void registry::keep_executions(std::size_t last_n) {
  detail::kept_executions& k = detail::records();
  const std::lock_guard switching(k.switching);
  {
    const std::lock_guard lock(k.lock);
    k.most = last_n;
    k.shrink();
  }
  const bool on = last_n != 0;
  detail::recording.store(on, detail::relaxed);  // E5
  detail::all_sections().look_at_all(
      [on](detail::section_core& s, std::uint32_t) { s.record(on); });
}

std::vector<execution_record> registry::executions() {
  detail::kept_executions& k = detail::records();
  const std::lock_guard lock(k.lock);
  return {k.all.begin(), k.all.end()};
}

}  // namespace turnstile
