// waiting_device_body.cpp - a body that takes a stream and returns an awaitable.
//
// Refused   a body that takes a stream only submits: it must not return an awaitable
#include <turnstile/critical_section.hpp>
#include <turnstile/stream.hpp>
#include <turnstile/task.hpp>

#if defined(REFUSED)
turnstile::task<> body(turnstile::stream& s);
#else
void body(turnstile::stream& s);
#endif

auto ask(turnstile::critical_section& cs) { return cs.execute(body); }
