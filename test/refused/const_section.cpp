// const_section.cpp - a const section among several.
//
// Refused   what is entered are critical_sections and synchronizeds, not const
#include <turnstile/execute.hpp>

#include <tuple>

#if defined(REFUSED)
using second = const turnstile::critical_section;
#else
using second = turnstile::critical_section;
#endif

void body();

auto ask(turnstile::critical_section& a, second& b) {
  return turnstile::execute(std::tie(a, b), body);
}
