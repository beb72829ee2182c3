// execute_after.hpp - what co_await section.execute(after(a, b), body) does.
#pragma once

#include <turnstile/after.hpp>
#include <turnstile/detail/applied_body.hpp>
#include <turnstile/detail/device_awaiter.hpp>
#include <turnstile/detail/for_once.hpp>
#include <turnstile/detail/section_request.hpp>
#include <turnstile/detail/suspended.hpp>
#include <turnstile/detail/timer.hpp>
#include <turnstile/task.hpp>
#include <turnstile/when_all.hpp>

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <source_location>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// What a dependency gives to the body: a tuple of at most one reference. `got` is what when_all
// gave.
template <bool as_rvalue, class A, class T>
auto argument(T& got) noexcept {
  using value = awaited<A>;
  if constexpr (std::is_void_v<value>) {
    return std::tuple<>{};
  } else if constexpr (std::is_lvalue_reference_v<value> || !as_rvalue) {
    return std::tuple<T&>(got);
  } else {
    return std::tuple<T&&>(std::move(got));
  }
}

template <bool as_rvalues, class... A, class... T>
auto arguments(std::tuple<T...>& got) noexcept {
  return std::apply(
      [](auto&... one) { return std::tuple_cat(detail::argument<as_rvalues, A>(one)...); }, got);
}

template <class... A>
using all_values = decltype(std::declval<all_of<A...>&>().await_resume());

template <class Body, class Args>
struct callable_with;
template <class Body, class... Args>
struct callable_with<Body, std::tuple<Args...>> : std::is_invocable<std::decay_t<Body>&, Args...> {
};

template <bool as_rvalues, class Data, class... A>
using after_arguments = decltype(std::tuple_cat(
    std::declval<Data>(), detail::arguments<as_rvalues, A...>(std::declval<all_values<A...>&>())));

// The body with its arguments filled in: the data, the stream of a device execution, the values.
template <class Body, class Data, class Values>
class body_after;
template <class Body, class... D, class... V>
class body_after<Body, std::tuple<D...>, std::tuple<V...>> {
  using function = std::decay_t<Body>;

 public:
  template <class B>
  body_after(B&& body, std::tuple<D...> data, std::tuple<V...> values)
      : body_(std::forward<B>(body)), data_(std::move(data)), values_(std::move(values)) {}

  decltype(auto) operator()()
    requires std::is_invocable_v<function&, D..., V...>
  {
    return call(std::index_sequence_for<D...>{}, std::index_sequence_for<V...>{});
  }
  decltype(auto) operator()(stream& s)
    requires(!std::is_invocable_v<function&, D..., V...> &&
             std::is_invocable_v<function&, D..., stream&, V...>)
  {
    return call(std::index_sequence_for<D...>{}, std::index_sequence_for<V...>{}, s);
  }

 private:
  template <std::size_t... Is, std::size_t... Js, class... Stream>
  decltype(auto) call(std::index_sequence<Is...>, std::index_sequence<Js...>, Stream&... s) {
    return std::invoke(body_, static_cast<D>(std::get<Is>(data_))..., s...,
                       static_cast<V>(std::get<Js>(values_))...);
  }

  function body_;
  std::tuple<D...> data_;
  std::tuple<V...> values_;
};

// The same with the stream of a device execution behind the data.
template <bool as_rvalues, class Data, class... A>
using after_arguments_and_stream = decltype(std::tuple_cat(
    std::declval<Data>(), std::declval<std::tuple<stream&>>(),
    detail::arguments<as_rvalues, A...>(std::declval<all_values<A...>&>())));

// How the body is called: with rvalues if it can be, but with a stream only if not without, as
// submits.
template <class Body, class Data, class... A>
inline constexpr bool with_rvalues = std::disjunction_v<
    callable_with<Body, after_arguments<true, Data, A...>>,
    std::conjunction<std::negation<callable_with<Body, after_arguments<false, Data, A...>>>,
                     callable_with<Body, after_arguments_and_stream<true, Data, A...>>>>;

template <class Body, class Data, class... A>
using call_after =
    body_after<Body, Data, after_arguments<with_rvalues<Body, Data, A...>, std::tuple<>, A...>>;

// Goes on where an executor says; at once if that is here.
class come_back : private suspended<job> {
 public:
  explicit come_back(executor_ref to) noexcept : to_(to) {}
  bool await_ready() noexcept {
    once_.begin();
    return !to_ || to_ == here().runs_on;
  }
  template <class P>
  void await_suspend(std::coroutine_handle<P> h) noexcept {
    suspend(h, to_);
    once_.note_waiting();
    to_.post(*this);  // this may be gone
  }
  void await_resume() noexcept { once_.note_going_on(); }

 private:
  executor_ref to_;
  for_once<"way back", "is in a queue"> once_;
};

// The dependencies may end anywhere. The request is made there, without a detour, but its awaiter
// comes back to where it was, as from any other execution; but what refuses the request is thrown
// without a detour, unless the dependencies have led elsewhere.
template <class Body, class Data, class... A>
task<body_result_t<call_after<Body, Data, A...>>> wait_and_execute(
    section_core& section, std::tuple<A...> all, Body body, Data data, execute_options options,
    kept_token stop, lane_ref lane, std::source_location where) {
  using call = call_after<Body, Data, A...>;
  const executor_ref began_on = here().runs_on;
  const std::uint64_t began_in = thread_number();
  const executor_ref home = options.resume_on ? options.resume_on : began_on;
  bool asked = false;  // what is thrown then has come home already, or refuses the request
  std::exception_ptr error;
  try {
    const std::stop_token token = stop.get();
    if (options.stop.token() != nullptr) options.stop = token;
    const bool expired = options.deadline != never && options.deadline <= timer_now();
    if (expired || token.stop_requested()) {  // then it does not wait for the others
      asked = true;
      co_await execution_awaiter<void (*)()>(section, +[] {}, options, where);  // throws
    }
    auto values = co_await std::apply(
        [](A&... a) { return turnstile::when_all(std::forward<A>(a)...); }, all);
    if (home != here().runs_on) options.resume_on = home;
    std::optional<stream> on;
    if (lane) options.on = &on.emplace(stream_access::on(std::move(lane)));
    asked = true;
    co_return co_await execution_awaiter<call>(
        section,
        call(std::move(body), std::move(data),
             detail::arguments<with_rvalues<Body, Data, A...>, A...>(values)),
        options, where);
  } catch (...) {
    error = std::current_exception();
  }
  const bool is_where_it_began =
      here().runs_on == began_on && (began_on || thread_number() == began_in);
  if (!asked || !is_where_it_began) co_await come_back(home);
  std::rethrow_exception(error);
}

// What is awaited: the task, which knows neither section nor place when it is misused.
template <class R>
class [[nodiscard("nothing is asked for until the result is awaited")]] execution_after {
 public:
  execution_after(const section_core& section, task<R> run,
                  const std::source_location& where) noexcept
      : section_(&section), run_(std::move(run)), where_(where) {}
  execution_after(execution_after&& other) noexcept
      : section_(other.section_),
        run_(std::move(other.run_)),
        where_(other.where_),
        is_(std::exchange(other.is_, state::moved_from)) {}

  auto operator co_await() noexcept {
    if (is_ != state::fresh) [[unlikely]]
      execution_misused(*section_, is_ == state::moved_from, where_);
    is_ = state::awaited;
    return std::move(run_).operator co_await();
  }

 private:
  enum class state : std::uint8_t { fresh, moved_from, awaited };

  const section_core* section_;
  task<R> run_;
  std::source_location where_;
  state is_ = state::fresh;
};

template <class Body, class Data, class... A>
auto execute_after(section_core& section, std::tuple<A...> all, Body body, Data data,
                   const execute_options& options, kept_token stop, lane_ref lane,
                   const std::source_location& where) {
  return execution_after<body_result_t<call_after<Body, Data, A...>>>(
      section,
      detail::wait_and_execute<Body, Data, A...>(section, std::move(all), std::move(body),
                                                 std::move(data), options, std::move(stop),
                                                 std::move(lane), where),
      where);
}

}  // namespace turnstile::detail
