// ended_by_the_last.hpp - a section and what it protects, ended by whoever is the last to need it.
#pragma once

#include "schedule/scenario.hpp"

#include <turnstile/critical_section.hpp>

namespace schedule {

class ended_by_the_last {
 public:
  explicit ended_by_the_last(int users, turnstile::section_options options = {.ring_capacity = 1})
      : cs(options), users_(users) {}

  auto body() {
    return [this] {
      n = n + 1;
      return static_cast<int>(n);
    };
  }
  // With what the body gave: this may be gone.
  void check_and_leave(int got) {
    require(got >= 1 && got <= 3, "a wrong result");
    leave();
  }
  void leave() {
    if (users_.fetch_sub(1, turnstile::detail::acq_rel) == 1) delete this;
  }

  turnstile::critical_section cs;
  guarded<int> n{0};

 private:
  ~ended_by_the_last() = default;

  atomic<int> users_;
};

}  // namespace schedule
