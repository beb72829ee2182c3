// waiting_predicate.cpp - a predicate that returns an awaitable.
//
// Refused   a predicate must not wait
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#if defined(REFUSED)
turnstile::task<bool> is_time();
#else
bool is_time();
#endif

void body();

auto ask(turnstile::critical_section& cs) { return cs.execute_when(is_time, body); }
