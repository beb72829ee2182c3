// fixed_result.cpp - a body that returns what cannot be moved.
//
// Refused   what a body or a task returns is moved to whoever awaits it: return something that can
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#include <atomic>

#if defined(REFUSED)
std::atomic<int> body();
#else
std::atomic<int>& body();
#endif

turnstile::task<> ask(turnstile::critical_section& cs) {
  static_cast<void>(co_await cs.execute(body));
}
