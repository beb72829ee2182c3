// device_awaiter.hpp - what co_await section.execute(body) does if the body only submits to a
// device.
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/execute_awaiter.hpp>
#include <turnstile/detail/section_request.hpp>
#include <turnstile/detail/submission.hpp>

#include <coroutine>
#include <exception>
#include <functional>
#include <source_location>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

template <class Body>
class [[nodiscard("nothing runs until the result is awaited")]] device_awaiter
    : private section_request {
  using value = body_result_t<Body>;

 public:
  template <class B>
  device_awaiter(section_core& section, B&& body, const execute_options& options,
                 const std::source_location& where)
      : section_request(section, options, where),
        submission_(section, lane_of(options.on)),
        all_uses_(options.uses),
        body_(std::forward<B>(body)) {}
  device_awaiter(device_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Body>)
      : section_request(std::move(other)),
        submission_(std::move(other.submission_)),
        all_uses_(other.all_uses_),
        body_(std::move(other.body_)) {}

  bool await_ready() {
    begin();
    if (withdraws()) refuse_if_withdrawn(*section_, asked_);  // first, as everywhere
    submission_.prepare(all_uses_);
    claim_uses();
    arrive();
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    suspend_as(h, &run_body, true);
    submission_.stand_before(*this, is_sent() ? resume_on_ : here().runs_on);
    tell_if_queued();
    accepted();
    const bool elsewhere = section_->bound_elsewhere();
    if (needs_stand_in(elsewhere)) [[unlikely]] {
      if (stand_in* const s = make_stand_in(turn_comes_once)) return wait_by(*s, false);
    }
    section_core& section = *section_;  // this may be gone after publishing or posting
    if (arrived_ == arrival::owner) {
      if (elsewhere) {
        begin_to_wait();
        section.post_first(line_, *this);
      } else {
        static_cast<void>(section.serve_first(line_, *this, nullptr));
      }
      return true;
    }
    if (section.publish_submission(*this, line_) == section_core::published::closed) refuse_late();
    return true;
  }

  value await_resume() {
    waited();
    if (left_ != nullptr) [[unlikely]]
      adopt_holds(*left_);
    if (got_.failed()) {
      submission_.tell_error_beside(got_.error(), at_.where);
    } else if (std::exception_ptr error = submission_.error()) {
      std::rethrow_exception(std::move(error));
    }
    return got_.take();
  }

 private:
  static outcome run_body(request& r) noexcept {
    auto& self = static_cast<device_awaiter&>(r);
    self.turn_has_come();
    self.keep_uses();
    if (self.comes_too_late()) [[unlikely]] {
      self.got_.fail(self.cancelled());
      return outcome::no_body;
    }
    return self.submission_.run([&self](stream& s) {
      self.left_ = run_held(*self.section_, self.chain_, self.at_, [&self, &s] {
        self.got_.run([&self, &s]() -> decltype(auto) { return std::invoke(self.body_, s); });
      });
    });
  }

  submission submission_;
  resource_list all_uses_;  // also what is claimed already
  Body body_;
  result<value> got_;
  chain_frame* left_ = nullptr;  // guards that the body left behind
};

// What an execution is awaited with.
template <class Body>
using execution_awaiter =
    std::conditional_t<submits<Body>, device_awaiter<Body>, execute_awaiter<Body>>;

}  // namespace turnstile::detail
