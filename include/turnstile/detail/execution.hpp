// execution.hpp - a request to run a body, whoever waits for it: a coroutine or a thread.
//
// The uncontended path is all here: arrive, run the body, leave. Everything that does not depend on
// the body's type is in lib/strand. Kept inline for bench/uncontended.
#pragma once

#include <turnstile/detail/body.hpp>
#include <turnstile/detail/section_request.hpp>
#include <turnstile/detail/stored_body.hpp>
#include <turnstile/execute_options.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

template <class Body>
class execution : protected section_request {
 protected:
  using value = body_result_t<Body>;
  static constexpr bool may_wait = waits<Body>;

  template <class B>
  execution(section_core& section, B&& body, const execute_options& options,
            const std::source_location& where)
      : section_request(section, options, where), body_(std::forward<B>(body)) {
    if constexpr (may_wait) left_ = nullptr;
  }

  execution(execution&& other) noexcept(std::is_nothrow_move_constructible_v<Body>)
      : section_request(std::move(other)), body_(std::move(other.body_)) {
    if constexpr (may_wait) left_ = nullptr;
  }

  TURNSTILE_INLINE ~execution() {
    if (phase_ != phase::awaited) [[unlikely]] {
      end_late();
    } else if constexpr (!result<value>::value_just_ends) {
      std::destroy_at(&got_);
    }
  }

  // awaited: the section was idle, and the body has run. left_more: the same, and it has left more
  // behind than a value. waiting: it has arrived.
  // On the calling thread, whose state is `t`: bodies end on the thread that they began on.
  // It is phase_ in the end; awaited is stored by the caller, last, because what a compiler knows
  // of memory ends where a section is left. So it knows that take and the end have nothing to look
  // for (test/instructions).
  // Where it has run, `turn_ended` says whether others get a turn.
  TURNSTILE_INLINE phase run_if_idle(thread_state& t, bool& turn_ended) {
    section_core& section = *section_;  // kept in a register
    const bool sent = is_sent();
    const phase then = last_phase();
    body_at_hand body = at_hand(*body_);
    must_be_fresh();
    if (is_in_chain(t.chain) || !asks_for_nothing_now()) [[unlikely]] {
      if (checks_and_claims(t, then)) return arrive_only();
    }
    if constexpr (!may_wait && section_ring::can_be_kept) {
      keeper& k = *t.keeps;
      std::uint64_t now = 0;
      if (k.has(section, now) && !sent && section.enter_kept(k, now)) [[likely]] {
        const bool is_all = run_at_once(t, then, body);
        const std::uint64_t ended = now + keeper::one_body;
        section_core::leave_kept(k, ended);
        turn_ended = t.turn_has_ended(ended);
        return is_all ? phase::awaited : phase::left_more;
      }
    }
    if (section.may_refuse()) [[unlikely]] {
      note_awaited(then);
      return arrive_only();
    }
    if (t.is_timed) [[unlikely]]
      note_absence(t);
    section_core::place line;
    arrival arrived = section.arrive(line);
    if (arrived == arrival::queued) [[unlikely]]
      arrived = await_one_body(line, t);
    if constexpr (!may_wait) {
      if (arrived == arrival::owner && !sent && !section.special() && !is_stopped_since(t))
          [[likely]] {
        const bool is_all = run_at_once(t, then, body);
        section.leave(line, t);
        turn_ended = t.turn_has_ended();
        return is_all ? phase::awaited : phase::left_more;
      }
    }
    note_awaited(then);  // not sooner: an atomic operation waits for what was stored before
    if (arrived == arrival::closed) refuse();
    arrived_ = arrived;
    line_ = line;
    return phase::waiting;
  }

  // For who is not in a hurry: the body does not run yet.
  void begin_and_arrive() {
    std::construct_at(&got_);
    begin();
    claim_uses();
    section_request::arrive();
  }

  // It has run, and others get a turn before the waiter goes on.
  void goes_on_later() noexcept {
    got_.note_value();
    left_ = nullptr;
    phase_ = phase::served;
  }

  // After it arrived, with its waiter filled in.
  line_entry wait_for_turn() {
    return section_request::wait_for_turn(&begin_body, may_wait, section_->bound_elsewhere());
  }
  // The same of a thread, which blocks until it may go on.
  void block_for_turn(blocked_thread& me) {
    section_request::block_for_turn(me, &begin_body, may_wait, section_->bound_elsewhere());
  }

  // After run_if_idle, where that left nothing but a value.
  TURNSTILE_INLINE value take_value() { return got_.value(); }
  // By the waiter when it goes on.
  TURNSTILE_INLINE value take() {
    if (phase_ == phase::awaited) [[likely]]
      return got_.value();
    waited();
    if (left_ != nullptr) [[unlikely]]
      adopt_holds(*left_);
    return got_.take();
  }

 public:
  // For waiting_body.
  using section_request::place;
  using section_request::section;
  void body_ended() noexcept { section_->body_finished(*this); }
  result<value>& got() noexcept { return got_; }
  chain_frame*& left_behind() noexcept { return left_; }

 private:
  // Whatever has become of it.
  void end_late() noexcept {
    if (phase_ != phase::fresh && phase_ != phase::moved_from) std::destroy_at(&got_);
    end_request();
  }
  TURNSTILE_INLINE void note_awaited(phase then) noexcept {
    phase_ = then;
    std::construct_at(&got_);
  }
  // What most have no use for. Throws what refuses the request. True: it must not run at once; else
  // it is as fresh as before.
  TURNSTILE_COLD bool checks_and_claims(const thread_state& t, phase then) {
    note_awaited(then);
    if (is_in_chain(t.chain)) check_chain();
    if (claim_uses()) return true;
    phase_ = phase::fresh;
    return false;
  }
  // Whatever happens, the body does not run within run_if_idle.
  TURNSTILE_COLD phase arrive_only() {
    section_request::arrive();
    return phase::waiting;
  }

  struct left_by_body {
    chain_frame* guards;
    bool has_value;  // false: it threw
  };
  // A body that fits into registers stays there while the section is entered, which is the end of
  // what a compiler knows of memory. It is called once, so nobody sees which copy that was, unless
  // it gives away its own address, as what it returns may.
  static constexpr bool fits_registers =
      !may_wait && std::is_trivially_copyable_v<Body> &&
      std::is_trivially_copy_constructible_v<Body> && sizeof(Body) <= 2 * sizeof(void*) &&
      (std::is_void_v<value> || std::is_arithmetic_v<value> || std::is_enum_v<value>);
  using body_at_hand = std::conditional_t<fits_registers, Body, Body&>;
  TURNSTILE_INLINE static body_at_hand at_hand(Body& b) noexcept {
    if constexpr (fits_registers) {
      return Body(std::as_const(b));
    } else {
      return b;
    }
  }

  TURNSTILE_INLINE left_by_body run_body(thread_state& t, chain_frame* requester,
                                         Body& body) noexcept {
    left_by_body what{nullptr, false};
    what.guards = run_held(t, t.chain, *section_, requester, at_, [this, &what, &body] {
      what.has_value = got_.run([&body]() -> decltype(auto) { return std::invoke(body); });
    });
    return what;
  }

  // With the section entered, and while this is as fresh as before. True: a value is all that the
  // body has left.
  TURNSTILE_INLINE bool run_at_once(thread_state& t, phase then, Body& body) noexcept {
    if (then == phase::ran) end_withdrawal();
    std::construct_at(&got_, unsaid{});
    const left_by_body what = run_body(t, t.chain, body);
    must_be_fresh();  // the body may have got hold of this
    return is_all_a_value(what);
  }

  // After the body has run at once. True: a value is all that it has left.
  TURNSTILE_INLINE bool is_all_a_value(const left_by_body& what) noexcept {
    if (what.has_value && what.guards == nullptr) [[likely]]
      return true;
    if (what.has_value) got_.note_value();
    left_ = what.guards;
    phase_ = phase::left_more;
    return false;
  }

  static outcome begin_body(request& r) noexcept {
    auto& self = static_cast<execution&>(r);
    self.turn_has_come();
    self.keep_uses();
    if (self.comes_too_late()) [[unlikely]] {
      self.got_.fail(self.cancelled());
      self.left_ = nullptr;
      return outcome::no_body;
    }
    if constexpr (may_wait) {
      return self.waiting_.start(self, *self.body_, self.chain_);
    } else {
      self.left_ = self.run_body(here(), self.chain_, *self.body_).guards;
      return outcome::finished;
    }
  }

  stored_body<Body> body_;
  union {
    result<value> got_;  // there when phase_ is neither fresh nor moved_from, and while a body runs
  };
  chain_frame* left_;  // guards that the body left behind; a plain body always says
  [[no_unique_address]] std::conditional_t<may_wait, waiting_body<Body, execution>, no_waiting_body>
      waiting_;
};

}  // namespace turnstile::detail
