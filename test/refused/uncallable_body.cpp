// uncallable_body.cpp - a body that cannot be called with what it gets.
//
// Refused   that of a synchronized with a reference to its value before
#include <turnstile/synchronized.hpp>

#include <string>

#if defined(REFUSED)
using value = std::string;
#else
using value = int;
#endif

auto ask(turnstile::synchronized<int>& s) {
  return s.execute([](value& v) { return v; });
}
