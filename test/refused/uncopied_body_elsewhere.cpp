// uncopied_body_elsewhere.cpp - a body that cannot be copied, given as an lvalue to what nobody
// awaits.
//
// Refused   a body that cannot be copied is passed as std::ref(body)
// Ways      8
#include <turnstile/synchronized.hpp>

#include <functional>
#include <memory>

#if !defined(REFUSED)
#define REFUSED 0
#endif

struct body_type {
  void operator()() { ++*n; }
  void operator()(int& m) { ++m; }
  std::unique_ptr<int> n;
};

template <int way>
decltype(auto) given(body_type& body) {
  if constexpr (way == REFUSED) {
    return (body);
  } else {
    return std::ref(body);
  }
}

void ask(turnstile::critical_section& cs, turnstile::synchronized<int>& value, body_type& body) {
  cs.submit(given<1>(body));
  cs.post(given<2>(body));
  cs.execute_blocking(given<3>(body));
  cs.try_execute(given<4>(body));
  value.submit(given<5>(body));
  value.post(given<6>(body));
  value.execute_blocking(given<7>(body));
  value.try_execute(given<8>(body));
}
