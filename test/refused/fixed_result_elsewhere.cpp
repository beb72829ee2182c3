// fixed_result_elsewhere.cpp - a body that returns what cannot be moved, given to try_execute and
// submit.
//
// Refused   what a body or a task returns is moved to whoever awaits it: return something that can
// Ways      4
#include <turnstile/synchronized.hpp>

#include <atomic>
#include <type_traits>

#if !defined(REFUSED)
#define REFUSED 0
#endif

template <int way>
using result = std::conditional_t<way == REFUSED, std::atomic<int>, std::atomic<int>&>;

template <int way>
struct body {
  result<way> operator()() const;
  result<way> operator()(int& n) const;
};

void ask(turnstile::critical_section& cs, turnstile::synchronized<int>& value) {
  cs.try_execute(body<1>());
  cs.submit(body<2>());
  value.try_execute(body<3>());
  value.submit(body<4>());
}

// Nobody asks for what it returns.
void post(turnstile::critical_section& cs) {
  cs.post([] { return std::atomic<int>(); });
}
