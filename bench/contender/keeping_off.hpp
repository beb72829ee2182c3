// keeping_off.hpp - no section of ours stays with the thread that comes back to it (keeper.hpp), as
// long as this lives. To be made before the threads that execute, and to outlive them.
#pragma once

#include <turnstile/turnstile.hpp>

#include <utility>

namespace bench {

class keeping_off {
 public:
  keeping_off() noexcept : before_(std::exchange(turnstile::detail::keeping::is_on, false)) {}
  ~keeping_off() { turnstile::detail::keeping::is_on = before_; }
  keeping_off(const keeping_off&) = delete;
  keeping_off& operator=(const keeping_off&) = delete;

 private:
  const bool before_;
};

}  // namespace bench
