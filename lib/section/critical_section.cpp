// critical_section.cpp - what of a section does not depend on the body's type.

#include <turnstile/critical_section.hpp>

namespace turnstile {

namespace {

[[noreturn]] void refuse_as_lost(detail::section_core& section) {
  std::rethrow_exception(section.refusal(detail::section_core::admission::lost));
}

}  // namespace

bool critical_section::arrive_if_idle(detail::section_core::place& line,
                                      std::source_location where) {
  if (core_.bound_elsewhere()) return false;
  if (core_.is_lost()) refuse_as_lost(core_);
  if (!core_.admit_if_empty()) return false;
  switch (core_.try_arrive(line)) {
    case detail::arrival::owner:
      if (core_.is_lost()) {  // meanwhile
        core_.leave_unused(line);
        refuse_as_lost(core_);
      }
      if (core_.watched()) core_.begin_tried({{}, where});
      return true;
    case detail::arrival::closed:
      core_.give_up_room();
      core_.count_refusal();
      throw section_closed(core_.label());
    default: break;
  }
  core_.give_up_room();
  return false;
}

std::optional<section_guard> critical_section::try_lock(std::source_location where) {
  detail::hold_frame* const hold = detail::make_hold(core_, {{}, where});
  try {
    detail::section_core::place line;
    if (arrive_if_idle(line, where)) {
      core_.hold_first(line);
      return detail::guard_access::own(core_, *hold);
    }
  } catch (...) {
    detail::drop(hold);
    throw;
  }
  detail::drop(hold);
  return std::nullopt;
}

}  // namespace turnstile
