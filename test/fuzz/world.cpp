// world.cpp - making sections as a program wants them.

#include "fuzz/world.hpp"

#include <algorithm>
#include <cstdint>

namespace fuzz {

namespace {

place bound_to(const section_config& config) {
  switch (config.executor()) {
    case 1: return place::first;
    case 2: return place::second;
    default: return place::nowhere;
  }
}

// Its number.
std::uint32_t youngest_section() {
  std::uint32_t youngest = 0;
  for (const turnstile::section_record& r : turnstile::registry::sections()) {
    youngest = std::max(youngest, static_cast<std::uint32_t>(r.id));
  }
  return youngest;
}

}  // namespace

reason reason_of(const std::exception_ptr& error) {
  if (error == nullptr) return reason::none;
  try {
    std::rethrow_exception(error);
  } catch (const turnstile::section_closed&) {
    return reason::closed;
  } catch (const turnstile::operation_cancelled&) {
    return reason::cancelled;
  } catch (const turnstile::deadline_exceeded&) {
    return reason::expired;
  } catch (...) {
    return reason::none;
  }
}

bool executors::run_one(place p) {
  const place before = std::exchange(now_, p);
  const bool ran = queues_[index(p)].jobs().run_one();
  now_ = before;
  return ran;
}

bool executors::run_nested(place p) {
  if (now_ == place::nowhere || depth_ == most_nested) return false;
  ++depth_;
  const bool ran = run_one(p);
  --depth_;
  return ran;
}

site::site(const section_config& config, std::string name, executors& on)
    : name_(config.named() || config.shared() ? std::move(name) : std::string{}) {
  if (config.shared()) {
    section_ = turnstile::critical_section::open(name_, "fuzz");
    expect(section_ == turnstile::critical_section::open(name_, "fuzz"), "a name is not shared");
    label_ = name_;
    return;
  }
  bound_ = bound_to(config);
  make(config, on);
  expect(section_->name() == name_, "a section does not know its name");
  label_ = name_.empty() ? "section #" + std::to_string(youngest_section()) : name_;
}

void site::make(const section_config& config, executors& on) {
  if (config.bits == section_config::plain) {
    section_ = std::make_shared<turnstile::critical_section>();
    return;
  }
  const turnstile::section_options options{
      .name = name_, .executor = on.at(bound_), .ring_capacity = config.cells()};
  if (config.with_data()) {
    data_ = std::make_unique<turnstile::synchronized<long>>(0, options);
    section_ = {std::shared_ptr<void>{}, &data_->section()};
  } else {
    section_ = std::make_shared<turnstile::critical_section>(options);
  }
}

counts site::statistics() const {
  const turnstile::section_statistics s = section_->statistics();
  return {s.executions, s.withdrawn, s.refused, s.waiters, s.most_waiters, s.held};
}

bool handle_slot::ready() const {
  return std::visit(
      [](const auto& h) {
        if constexpr (requires { h.ready(); }) return h.ready();
        return false;
      },
      handle);
}

world::world(const program& p)
    : on(p.first_eager, p.second_eager), eager_(p.first_eager || p.second_eager) {
  for (std::size_t i = 0; i != tokens.size(); ++i) tokens[i].number = i;
  for (const section_config& c : p.sections) {
    sites.push_back(
        std::make_unique<site>(c, std::string(1, static_cast<char>('a' + sites.size())), on));
  }
}

}  // namespace fuzz
