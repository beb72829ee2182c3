// owning_closure.cpp - a closure written inside co_await, whose captures g++ before 13 would
// destroy twice.
//
// Refused   g++ before 13 destroys the captures of a lambda written inside co_await twice
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#include <memory>

turnstile::task<> ask(turnstile::critical_section& cs, std::shared_ptr<int> n) {
#if defined(REFUSED)
  co_await cs.execute([n] { ++*n; });
#else
  const auto body = [n] { ++*n; };
  co_await cs.execute(body);
#endif
}
