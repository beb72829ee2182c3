// device_body_when.cpp - a body that takes a stream, given to execute_when.
//
// Refused   a body that takes a stream can be given to execute, submit
#include <turnstile/critical_section.hpp>
#include <turnstile/stream.hpp>

#if defined(REFUSED)
void body(turnstile::stream& s);
#else
void body();
#endif

bool is_time();

auto ask(turnstile::critical_section& cs) { return cs.execute_when(is_time, body); }
