// stoppable_wait.cpp - a wait that a stop has ended. The protocol is in the header.

#include "executor/or_shared.hpp"

#include <turnstile/detail/stoppable_wait.hpp>

namespace turnstile::detail {

void stoppable_wait::withdraw() noexcept {
  withdrawn_ = true;
  if (!is_second()) return;                        // this may be gone
  or_shared(job_access::home(*this)).post(*this);  // this may be gone
}

}  // namespace turnstile::detail
