// several_awaiter.hpp - what co_await execute(std::tie(a, b), body) does.
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/several_request.hpp>
#include <turnstile/detail/stored_body.hpp>

#include <array>
#include <coroutine>
#include <cstddef>
#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

template <std::size_t N, class Body>
class [[nodiscard("nothing runs until the result is awaited")]] several_awaiter
    : private several_request {
  using value = body_result_t<Body>;
  static constexpr bool may_wait = waits<Body>;

 public:
  using sections = std::array<section_core*, N>;

  several_awaiter(const sections& all, Body&& body, const execute_options& options,
                  const std::source_location& where)
      : several_request(*all[0], &run, options, where), body_(std::move(body)) {
    for (std::size_t i = 0; i != N; ++i) held_[i].section = all[i];
    put_in_order(held_.data(), N);
  }

  several_awaiter(several_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Body>)
      : several_request(std::move(other)), held_(other.held_), body_(std::move(other.body_)) {}

  bool await_ready() {
    begin(held_.data());
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) noexcept {
    suspend_as(h, &granted, true);
    return !enter_all() || stay_here(h);
  }

  value await_resume() {
    waited();
    if (left_ != nullptr) [[unlikely]]
      adopt_holds(*left_);
    throw_refusal();
    return got_.take();
  }

  // For waiting_body.
  using several_request::body_ended;
  using several_request::place;
  using several_request::section;
  result<value>& got() noexcept { return got_; }
  chain_frame*& left_behind() noexcept { return left_; }

 private:
  static outcome run(several_request& r) noexcept {
    auto& self = static_cast<several_awaiter&>(r);
    if constexpr (may_wait) {
      return self.waiting_.start(self, *self.body_, self.requester());
    } else {
      self.left_ = run_held(self.section(), self.requester(), self.at_, [&self] {
        self.got_.run([&self]() -> decltype(auto) { return std::invoke(*self.body_); });
      });
      return outcome::finished;
    }
  }

  std::array<held_section, N> held_{};
  stored_body<Body> body_;
  result<value> got_;
  chain_frame* left_ = nullptr;  // guards that the body left behind
  [[no_unique_address]] std::conditional_t<may_wait, waiting_body<Body, several_awaiter>,
                                           no_waiting_body> waiting_;
};

}  // namespace turnstile::detail
