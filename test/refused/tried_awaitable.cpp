// tried_awaitable.cpp - a body that returns an awaitable, given to try_execute, which does not
// wait.
//
// Refused   a body that waits cannot be tried: use execute
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#if defined(REFUSED)
turnstile::task<int> body();
#else
int body();
#endif

auto ask(turnstile::critical_section& cs) { return cs.try_execute(body); }
