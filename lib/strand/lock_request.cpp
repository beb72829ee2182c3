// lock_request.cpp - a guard's turn.

#include <turnstile/detail/lock_request.hpp>

namespace turnstile::detail {

outcome lock_request::grant(request& r) noexcept {
  auto& self = static_cast<lock_request&>(r);
  self.turn_has_come();
  self.keep_uses();
  if (!self.comes_too_late()) return outcome::granted;
  self.refusal_ = self.cancelled();
  return outcome::no_body;
}

}  // namespace turnstile::detail
