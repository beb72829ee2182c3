// applied_body.hpp - a body whose arguments are known before it runs.
#pragma once

#include <turnstile/detail/stored_body.hpp>

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile {

class stream;

namespace detail {

// Args are references, T& or T&&, and are passed as such.
template <class Body, class... Args>
class applied_body {
  static_assert((std::is_reference_v<Args> && ...));

 public:
  template <class B>
  applied_body(B&& body, std::tuple<Args...> args)
      : body_(std::forward<B>(body)), args_(std::move(args)) {}

  decltype(auto) operator()()
    requires std::is_invocable_v<Body&, Args...>
  {
    return call(std::index_sequence_for<Args...>{});
  }
  decltype(auto) operator()(stream& s)
    requires(!std::is_invocable_v<Body&, Args...> && std::is_invocable_v<Body&, Args..., stream&>)
  {
    return call(std::index_sequence_for<Args...>{}, s);
  }

 private:
  template <std::size_t... Is, class... More>
  decltype(auto) call(std::index_sequence<Is...>, More&... more) {
    return std::invoke(*body_, static_cast<Args>(std::get<Is>(args_))..., more...);
  }

  stored_body<Body> body_;
  std::tuple<Args...> args_;
};

template <class Body, class Args>
struct body_applied_to;
template <class Body, class... Args>
struct body_applied_to<Body, std::tuple<Args...>> {
  using type = applied_body<std::decay_t<Body>, Args...>;
};

// The type of Body with these arguments filled in, a tuple of references.
template <class Body, class Args>
using body_applied_to_t = typename body_applied_to<Body, Args>::type;

}  // namespace detail
}  // namespace turnstile
