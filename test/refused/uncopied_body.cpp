// uncopied_body.cpp - a body that cannot be copied, given as an lvalue.
//
// Refused   a body that cannot be copied is passed as std::ref(body)
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#include <functional>
#include <memory>
#include <utility>

turnstile::task<> ask(turnstile::critical_section& cs, std::unique_ptr<int> n) {
  auto body = [n = std::move(n)] { ++*n; };
#if defined(REFUSED)
  co_await cs.execute(body);
#else
  co_await cs.execute(std::ref(body));
#endif
}
