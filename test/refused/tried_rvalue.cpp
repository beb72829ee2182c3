// tried_rvalue.cpp - a body that returns an rvalue reference, which no answer of try_execute can
// hold.
//
// Refused   no answer of try_execute can be an rvalue reference: return the value, or an lvalue
#include <turnstile/critical_section.hpp>

#if defined(REFUSED)
int&& body();
#else
int& body();
#endif

auto ask(turnstile::critical_section& cs) { return cs.try_execute(body); }
