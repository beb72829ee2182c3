// tried_uncallable_on_value.cpp - a body that does not take the value, given to try_execute.
//
// Refused   that of a synchronized with a reference to its value before
#include <turnstile/synchronized.hpp>

#if defined(REFUSED)
int body();
#else
int body(int& n);
#endif

auto ask(turnstile::synchronized<int>& s) { return s.try_execute(body); }
