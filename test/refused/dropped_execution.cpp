// dropped_execution.cpp - an execution that nobody awaits.
//
// Refused   nothing runs until the result is awaited
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

void body();

turnstile::task<> ask(turnstile::critical_section& cs) {
#if !defined(REFUSED)
  co_await
#endif
      cs.execute(body);
  co_return;
}
