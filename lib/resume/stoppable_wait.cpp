// stoppable_wait.cpp - a wait that a stop has ended. The protocol is in the header.

#include <turnstile/detail/stoppable_wait.hpp>
#include <turnstile/thread_pool.hpp>

namespace turnstile::detail {

void stoppable_wait::withdraw() noexcept {
  withdrawn_ = true;
  if (!is_second()) return;  // this may be gone
  if (const executor_ref home = job_access::home(*this)) {
    home.post(*this);  // this may be gone
  } else {
    executor_ref(thread_pool::shared()).post(*this);
  }
}

}  // namespace turnstile::detail
