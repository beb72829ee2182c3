// device_body_in_several.cpp - a body that takes a stream, given to several sections at once.
//
// Refused   a body that takes a stream can be given to execute, submit
#include <turnstile/execute.hpp>
#include <turnstile/stream.hpp>

#include <tuple>

#if defined(REFUSED)
void body(turnstile::stream& s);
#else
void body();
#endif

auto ask(turnstile::critical_section& a, turnstile::critical_section& b) {
  return turnstile::execute(std::tie(a, b), body);
}
