// tried_uncallable.cpp - a body that wants an argument, given to try_execute.
//
// Refused   a body is called as an lvalue, without arguments or with a stream&
#include <turnstile/critical_section.hpp>

#if defined(REFUSED)
int body(int n);
#else
int body();
#endif

auto ask(turnstile::critical_section& cs) { return cs.try_execute(body); }
