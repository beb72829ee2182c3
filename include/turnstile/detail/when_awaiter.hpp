// when_awaiter.hpp - what co_await section.execute_when(pred, body) does.
//
// The request waits in line as any other. When its turn comes the predicate is asked, as part of
// the section; if it says no, the request is set aside (lib/strand/aside.cpp), behind a stand-in,
// and asked again after each body.
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/section_request.hpp>
#include <turnstile/detail/stored_body.hpp>

#include <coroutine>
#include <exception>
#include <functional>
#include <new>
#include <source_location>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

template <class Pred, class Body>
class [[nodiscard("nothing runs until the result is awaited")]] when_awaiter
    : private section_request {
  using value = body_result_t<Body>;
  static constexpr bool may_wait = waits<Body>;
  static_assert(!awaitable<returned<Pred>>, "a predicate must not wait");
  static_assert(std::is_constructible_v<bool, returned<Pred>>, "a predicate says yes or no");

 public:
  template <class P, class B>
  when_awaiter(section_core& section, P&& pred, B&& body, const execute_options& options,
               const std::source_location& where)
      : section_request(section, options, where),
        pred_(std::forward<P>(pred)),
        body_(std::forward<B>(body)) {}

  when_awaiter(when_awaiter&& other) noexcept(std::is_nothrow_move_constructible_v<Pred> &&
                                              std::is_nothrow_move_constructible_v<Body>)
      : section_request(std::move(other)),
        pred_(std::move(other.pred_)),
        body_(std::move(other.body_)) {}

  bool await_ready() {
    begin();
    claim_uses();
    arrive();
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    const bool elsewhere = section_->bound_elsewhere();
    request* const own = elsewhere || must_hop() ? nullptr : this;
    suspend_as(h, &ask, may_wait);
    accepted();
    if (needs_stand_in(elsewhere)) [[unlikely]] {
      start = &run_body;
      if (stand_in* const s = make_stand_in(asks_first)) return wait_by(*s, true);
      start = &ask;
    }
    return enter_line(own, elsewhere) == line_entry::waits || go_on_here(h);
  }

  value await_resume() {
    waited();
    if (left_ != nullptr) [[unlikely]]
      adopt_holds(*left_);
    return got_.take();
  }

  // For waiting_body.
  using section_request::place;
  using section_request::section;
  void body_ended() noexcept { section_->body_finished(*this); }
  result<value>& got() noexcept { return got_; }
  chain_frame*& left_behind() noexcept { return left_; }

 private:
  static when_awaiter& of(request& r) noexcept { return static_cast<when_awaiter&>(r); }

  // Yes, or the predicate threw: then the request ends with that. If it is too late it ends, and
  // nothing is looked at.
  bool may_run_now() noexcept {
    too_late_ = comes_too_late();
    if (too_late_) return true;
    bool yes = true;
    left_ = run_held(*section_, chain_, at_, [this, &yes] {
      try {
        yes = static_cast<bool>(std::invoke(*pred_));
      } catch (...) {
        got_.fail(std::current_exception());
      }
    });
    if (left_ != nullptr) [[unlikely]]
      drop_hold(*std::exchange(left_, nullptr));
    return yes;
  }

  // Its turn in line.
  static outcome ask(request& r) noexcept {
    when_awaiter& self = of(r);
    if (self.may_run_now()) return run_body(r);
    if (!self.section_->may_set_aside()) return no_room(r);
    self.start = &run_body;
    self.begin_to_wait();
    stand_in* const s = self.make_stand_in(asks_first);  // it is in, so this does not throw
    if (s == nullptr) return self.refuse_with(std::make_exception_ptr(std::bad_alloc()));
    self.keep_uses();
    self.section_->set_aside(*s);
    return outcome::set_aside;
  }

  static outcome no_room(request& r) noexcept {
    when_awaiter& self = of(r);
    return self.refuse_with(self.section_->refusal(section_core::admission::full));
  }
  outcome refuse_with(std::exception_ptr why) noexcept {
    leave_no_trace();
    got_.fail(std::move(why));
    return outcome::no_body;
  }

  // It may run now.
  static outcome run_body(request& r) noexcept {
    when_awaiter& self = of(r);
    self.keep_uses();
    if (self.got_.failed()) return outcome::no_body;  // by its predicate
    // Once it is found that it may run it is withdrawn no more, and may have to go elsewhere.
    if (std::exception_ptr why = self.too_late_ ? self.cancelled() : self.withdrawn_by_now()) {
      self.got_.fail(std::move(why));
      return outcome::no_body;
    }
    if constexpr (may_wait) {
      return self.waiting_.start(self, *self.body_, self.chain_);
    } else {
      self.left_ = run_held(*self.section_, self.chain_, self.at_, [&self] {
        self.got_.run([&self]() -> decltype(auto) { return std::invoke(*self.body_); });
      });
      return outcome::finished;
    }
  }

  static constexpr stand_in::calls asks_first{
      [](request&) noexcept {}, [](request& r) noexcept { return of(r).may_run_now(); }, &no_room,
      &never_let_in};

  stored_body<Pred> pred_;
  stored_body<Body> body_;
  result<value> got_;
  chain_frame* left_ = nullptr;  // guards that the body left behind
  bool too_late_ = false;        // so the predicate was not asked, and no body follows
  [[no_unique_address]] std::conditional_t<may_wait, waiting_body<Body, when_awaiter>,
                                           no_waiting_body> waiting_;
};

}  // namespace turnstile::detail
