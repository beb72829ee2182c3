// Plain threads that ask by execute_blocking: what they cost next to other locks for plain threads.

#include "contender/plain_threads.hpp"

#include <turnstile/turnstile.hpp>

#include <string_view>

namespace {

class blocking {
 public:
  static constexpr std::string_view name = BENCH_TURNSTILE_NAME "_blocking";

  template <class Body>
  void execute(Body&& body) {
    section_.execute_blocking(std::forward<Body>(body));
  }

 private:
  turnstile::critical_section section_;
};

using contender = bench::plain_threads<blocking>;
const bool asked = (bench::uncontended::ask<contender>(), bench::counter::ask<contender>(),
                    bench::think::ask<contender>(), true);

}  // namespace
