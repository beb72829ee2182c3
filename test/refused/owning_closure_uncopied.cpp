// owning_closure_uncopied.cpp - the same as owning_closure of one that cannot be copied.
//
// Refused   Name the lambda; a body that cannot be copied is passed as std::ref(body)
#include <turnstile/critical_section.hpp>
#include <turnstile/task.hpp>

#include <functional>
#include <memory>
#include <utility>

turnstile::task<> ask(turnstile::critical_section& cs, std::unique_ptr<int> n) {
#if defined(REFUSED)
  co_await cs.execute([n = std::move(n)] { ++*n; });
#else
  auto body = [n = std::move(n)] { ++*n; };
  co_await cs.execute(std::ref(body));
#endif
}
