// const_variable.cpp - a variable of what never changes.
//
// Refused   a variable's value is an object, neither const nor volatile
#include <turnstile/variable.hpp>

#if defined(REFUSED)
using value = const int;
#else
using value = int;
#endif

int ask(const turnstile::variable<value>& v) { return *v.read(); }
