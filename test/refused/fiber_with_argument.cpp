// fiber_with_argument.cpp - a function that wants an argument, to be run as a fiber.
//
// Refused   what a fiber runs is called as an rvalue, without arguments
// Ways      2
#include <turnstile/thread_pool.hpp>

#if !defined(REFUSED)
#define REFUSED 0
#endif

template <int way>
auto work() {
  if constexpr (way == REFUSED) {
    return [](int) {};
  } else {
    return [] {};
  }
}

void start(turnstile::thread_pool& pool) {
  pool.spawn_fiber(work<1>());
  turnstile::spawn_fiber(pool, work<2>());
}
