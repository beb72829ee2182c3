// predicate_of_a_value.cpp - a predicate that might change the value that it is asked about.
//
// Refused   the predicate of a synchronized is called with a const reference to its value
#include <turnstile/synchronized.hpp>
#include <turnstile/task.hpp>

turnstile::task<> ask(turnstile::synchronized<int>& value) {
#if defined(REFUSED)
  const auto may = [](int& n) { return n > 0; };
#else
  const auto may = [](const int& n) { return n > 0; };
#endif
  const auto take = [](int& n) { --n; };
  co_await value.execute_when(may, take);
}
