// detached.hpp - an execution that is in nobody's frame: what submit, post and async_execute share.
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/looking.hpp>
#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/stand_in.hpp>
#include <turnstile/detail/stored_body.hpp>
#include <turnstile/detail/submission.hpp>
#include <turnstile/errors.hpp>
#include <turnstile/execute_options.hpp>

#include <exception>
#include <functional>
#include <new>
#include <optional>
#include <stop_token>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// Whether bodies, its own and those it then serves, may run within the call that sends it.
enum class bodies : bool { later, here_too };

// Base of Self, which has
//   section_core& section(), const site& place(), result<body_result_t<Body>>& got()
//   chain_frame*& left_behind()      null at first: guards that the body leaves behind
//   void body_begins() noexcept      if it wants to be told
//   void body_over() noexcept        the body has ended, and the section is not left yet
//   void end() noexcept              the section was left; this may be freed
// and its own of these, if more than its options may withdraw it.
template <class Body, class Self, bodies Run>
class detached : protected request {
  static constexpr bool may_wait_ = waits<Body>;
  static constexpr bool submits_ = submits<Body>;

 public:
  // What it is refused with, and then nothing was done; null if nothing.
  std::exception_ptr send(const withdrawal_sources& asks) noexcept {
    section_core& section = self().section();
    try {
      refuse_if_withdrawn(section, asks);
      if constexpr (submits_) prepare_submission();
      claim_uses();
    } catch (...) {
      return std::current_exception();
    }
    std::exception_ptr refused = send_in_line(asks);
    if (refused != nullptr) withdraw_new_claims();
    return refused;
  }

  // For Self to say otherwise. The token is asked for once, if it has to wait; without memory for
  // that the request waits as any other.
  bool is_stoppable() const noexcept { return false; }
  std::stop_token stop() { return {}; }

  // For waiting_body.
  void body_ended() noexcept { self().section().body_finished(*this); }

 protected:
  template <class B>
  detached(B&& body, const resource_list& uses) : body_(std::forward<B>(body)) {
    if (!uses.empty()) uses_ = uses;
    work_ = &deliver;
    home_ = {};
    start = &begin_body;
    back_to = nullptr;
    may_wait = may_wait_ || submits_;
    accepted_at = 0;
  }
  // A device execution: `on` may be null.
  void submit_to(lane_ref on) { submission_.emplace(self().section(), std::move(on)); }
  void submit_to(lane_ref on, submitted_mark& tell) {
    submit_to(std::move(on));
    submission_->tell(tell);
  }
  point_ref end_of_work() const noexcept { return submission_->end(); }

 private:
  Self& self() noexcept { return static_cast<Self&>(*this); }

  void claim_uses() {
    if (uses_.empty()) return;
    section_core& section = self().section();
    section.counting_refusal(
        [&] { claims_are_new_ = claim(section, uses_, self().place().exclusive()); });
  }

  // Null: it is sent, and this may be gone.
  std::exception_ptr send_in_line(const withdrawal_sources& asks) noexcept {
    using admission = section_core::admission;
    section_core& section = self().section();
    const admission how = section.admit();
    if (how != admission::in && how != admission::outside) return section.refusal(how);
    section_core::place line{};
    const arrival arrived = how == admission::in ? section.arrive(line) : arrival::outside;
    if (arrived == arrival::closed) {
      section.give_up_room();
      return section.refusal(admission::closed);
    }
    if (section.watched()) [[unlikely]]
      accepted_at = section.accept_watched(self().place(), uses_);
    const bool runs_now =
        Run == bodies::here_too && arrived == arrival::owner && !section.bound_elsewhere();
    if (!runs_now) {
      if (stand_in* const s = make_stand_in(asks, arrived == arrival::outside)) {
        send_by(*s, arrived, line);
        return nullptr;
      }
    }
    switch (arrived) {
      case arrival::outside:
        if (section.recorded()) forget_execution(section, self().place());
        return std::make_exception_ptr(std::bad_alloc());
      case arrival::owner:
        if (runs_now) {
          static_cast<void>(section.serve_first(line, *this, nullptr));
        } else {
          section.post_first(line, *this);
        }
        return nullptr;
      default: break;
    }
    if (publish(section, line) != section_core::published::closed) return nullptr;
    if (section.recorded()) forget_execution(section, self().place());
    return section.refusal(section_core::admission::closed);
  }

  section_core::published publish(section_core& section, section_core::place line) noexcept {
    if constexpr (Run == bodies::here_too && submits_) {
      return section.publish_submission(*this, line);
    } else if constexpr (Run == bodies::here_too) {
      return section.publish(*this, line, nullptr);
    } else {
      return section.publish_only(*this, line);
    }
  }

  // Null: it needs none, or there was no memory for it.
  stand_in* make_stand_in(const withdrawal_sources& asks, bool is_outside) noexcept {
    if (!asks.are_any() && !is_outside && !self().is_stoppable()) return nullptr;
    stand_in_ = detail::make_stand_in(*this, self().section(), when_withdrawn);
    if (stand_in_ == nullptr) return nullptr;
    stand_in_->listen_to(asks);
    listen();
    return stand_in_;
  }

  void listen() noexcept {
    try {
      if (self().is_stoppable()) stand_in_->listen_to(self().stop());
    } catch (const std::bad_alloc&) {
    }
  }

  // This may be gone afterwards.
  void send_by(stand_in& s, arrival arrived, section_core::place line) noexcept {
    if (!self().section().put_in_line(s, arrived, line)) deliver(*this);
  }

  void keep_new_claims() noexcept {
    if (std::exchange(claims_are_new_, false)) {
      keep_claims(self().section(), uses_, self().place().exclusive());
    }
  }

  void withdraw_new_claims() noexcept {
    if (std::exchange(claims_are_new_, false)) {
      withdraw_claims(self().section(), uses_, self().place().exclusive());
    }
  }

  static void never_in(request& r) noexcept {
    Self& self = of(r);
    static_cast<detached&>(self).withdraw_new_claims();
    if (self.section().recorded()) forget_execution(self.section(), self.place());
  }

  static Self& of(job& j) noexcept {
    return static_cast<Self&>(static_cast<detached&>(static_cast<request&>(j)));
  }

  static constexpr stand_in::calls when_withdrawn{[](request& r) noexcept { of(r).body_over(); },
                                                  nullptr, nullptr, &never_in};

  void prepare_submission() {
    submission_->prepare(uses_);
    // Nobody needs the executor that this is asked on: whoever awaits the end goes on elsewhere.
    submission_->stand_before(*this, {});
  }

  outcome run_submission() noexcept {
    const outcome what = submission_->run([this](stream& s) {
      self().left_behind() = run_held(self().section(), nullptr, self().place(), [&] {
        self().got().run([&]() -> decltype(auto) { return std::invoke(*body_, s); });
      });
      self().body_over();
    });
    if (what == outcome::no_body) self().body_over();
    return what;
  }

  static outcome begin_body(request& r) noexcept {
    Self& self = of(r);
    detached& mine = self;
    if constexpr (requires { self.body_begins(); }) self.body_begins();
    mine.keep_new_claims();
    if (self.section().is_lost()) [[unlikely]] {
      self.got().fail(self.section().lost_with());
      self.body_over();
      return outcome::no_body;
    }
    if constexpr (submits_) {
      return mine.run_submission();
    } else if constexpr (may_wait_) {
      return mine.waiting_.start(self, *mine.body_, nullptr);
    } else {
      self.left_behind() = run_held(self.section(), nullptr, self.place(), [&] {
        self.got().run([&]() -> decltype(auto) { return std::invoke(*mine.body_); });
      });
      self.body_over();
      return outcome::finished;
    }
  }

  static void deliver(job& j) noexcept {
    Self& self = of(j);
    if (stand_in* const s = static_cast<detached&>(self).stand_in_) [[unlikely]] {
      if (std::exception_ptr why = s->let_go()) self.got().fail(std::move(why));
    }
    if constexpr (submits_) {
      const submission& work = *static_cast<detached&>(self).submission_;
      if (self.got().failed()) {
        work.tell_error_beside(self.got().error(), self.place().where);
      } else if (std::exception_ptr why = work.error()) {
        self.got().replace(std::move(why));
      }
    }
    self.end();
  }

  stored_body<Body> body_;
  resource_list uses_;
  bool claims_are_new_ = false;
  stand_in* stand_in_ = nullptr;
  [[no_unique_address]] std::conditional_t<may_wait_, waiting_body<Body, Self>, no_waiting_body>
      waiting_;
  [[no_unique_address]] std::conditional_t<submits_, std::optional<submission>, no_waiting_body>
      submission_;
};

}  // namespace turnstile::detail
