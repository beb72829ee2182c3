// enqueued_awaitable.cpp - a callable that returns an awaitable, given to a stream, which only
// calls it.
//
// Refused   what is given to a stream is called, and what it returns is not awaited
#include <turnstile/stream.hpp>
#include <turnstile/task.hpp>

#if defined(REFUSED)
turnstile::task<int> work();
#else
int work();
#endif

void give(turnstile::stream& s) { s.enqueue(work); }
