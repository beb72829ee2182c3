// critical_section.cpp - what of a section does not depend on the body's type.

#include <turnstile/critical_section.hpp>

namespace turnstile {

namespace {

using detail::section_core;

[[noreturn]] void refuse(section_core& section, section_core::admission why) {
  std::rethrow_exception(section.refusal(why));
}

}  // namespace

bool critical_section::arrive_if_idle(detail::section_core::place& line, std::source_location where,
                                      bool anywhere) {
  if (!anywhere && core_.bound_elsewhere()) {
    if (core_.is_closing()) refuse(core_, section_core::admission::closed);
    return false;
  }
  if (core_.is_lost()) refuse(core_, section_core::admission::lost);
  const section_core::admission admitted = core_.admit_if_empty();
  if (admitted == section_core::admission::closed) refuse(core_, admitted);
  if (admitted != section_core::admission::in) return false;
  switch (core_.try_arrive(line)) {
    case detail::arrival::owner:
      if (core_.is_lost()) {  // meanwhile
        core_.leave_unused(line);
        refuse(core_, section_core::admission::lost);
      }
      if (core_.watched()) core_.begin_tried({{}, where}, {});
      return true;
    case detail::arrival::closed:
      core_.give_up_room();
      refuse(core_, section_core::admission::closed);
    default: break;
  }
  core_.give_up_room();
  return false;
}

std::optional<section_guard> critical_section::try_lock(std::source_location where) {
  return own_if_idle(where, false);
}

std::optional<section_guard> critical_section::own_if_idle(std::source_location where,
                                                           bool anywhere) {
  detail::hold_frame* const hold = detail::make_hold(detail::here(), core_, {{}, where});
  try {
    detail::section_core::place line;
    if (arrive_if_idle(line, where, anywhere)) {
      detail::note_first(*hold, line);
      return detail::guard_access::own(core_, *hold, detail::here());
    }
  } catch (...) {
    detail::drop_unused(*hold);
    throw;
  }
  detail::drop_unused(*hold);
  return std::nullopt;
}

}  // namespace turnstile
