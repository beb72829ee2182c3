// lock_awaiter.hpp - what co_await section.lock() does.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/lock_request.hpp>
#include <turnstile/detail/trampoline.hpp>
#include <turnstile/section_guard.hpp>

#include <coroutine>
#include <exception>
#include <source_location>
#include <tuple>
#include <utility>

namespace turnstile::detail {

// Guard is made from a section_guard: the guard itself, or one that also knows the data.
template <class Guard, class... Data>
class [[nodiscard("nothing is locked until the result is awaited")]] lock_awaiter
    : private lock_request {
 public:
  TURNSTILE_INLINE lock_awaiter(section_core& section, const execute_options& options,
                                const std::source_location& where, Data*... data)
      : lock_request(section, options, where), data_(data...) {}
  lock_awaiter(lock_awaiter&& other) noexcept
      : lock_request(std::move(other)), data_(other.data_) {}

  TURNSTILE_INLINE bool await_ready() {
    thread_state& t = here();
    section_core& section = *section_;  // kept in a register
    must_be_fresh();
    hold_ = make_hold(t, section, at_);  // before anything is entered or asked for: this may fail
    if (is_in_chain(t.chain) || asks_ != 0) [[unlikely]]
      return has_come_slowly();
    if constexpr (section_ring::can_be_kept) {
      keeper& k = *t.keeps;
      std::uint64_t now = 0;
      if (k.has(section, now) && section.enter_kept(k, now)) [[likely]] {
        phase_ = phase::awaited;
        note_kept(*hold_, k);
        return goes_on(t, t.turn_has_ended(now));
      }
    }
    if (section.may_refuse()) [[unlikely]]
      return has_come_slowly();
    phase_ = phase::awaited;
    section_core::place line;
    const arrival arrived = section.arrive(line);
    if (arrived == arrival::owner && !section.watched() && !section.is_lost()) [[likely]] {
      note_first(*hold_, line);
      return goes_on(t, t.turn_has_ended());
    }
    if (arrived == arrival::closed) refuse();
    arrived_ = arrived;
    line_ = line;
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    if (phase_ == phase::served) return give_turn(h);
    hold_->came = hold_frame::way::in_line;
    request* const own = must_hop() ? nullptr : this;
    suspend_as(h, &grant, true);
    switch (wait_in_line(own, false)) {
      case line_entry::waits: return true;
      case line_entry::is_served: return own_here(h);
      case line_entry::withdrawn: break;
    }
    return false;
  }

  TURNSTILE_INLINE Guard await_resume(was_ready) {
    return std::apply([this](Data*... data) { return Guard(own(), data...); }, data_);
  }
  Guard await_resume() {
    waited();
    if (refusal_ != nullptr) std::rethrow_exception(std::move(refusal_));
    return await_resume(was_ready{});
  }

 private:
  TURNSTILE_COLD bool has_come_slowly() {
    thread_state& t = here();
    begin();
    claim_uses();
    arrive();
    if (arrived_ != arrival::owner || must_hop()) return false;
    if (section_->watched() || section_->is_lost() || is_stopped_since(t)) return false;
    keep_uses();
    if (withdraws()) end_withdrawal();
    note_first(*hold_, line_);
    return goes_on(t, t.turn_has_ended());
  }
  // The section is owned.
  TURNSTILE_INLINE bool goes_on(const thread_state& t, bool turn_ended) noexcept {
    if (!begins_anew(t, turn_ended)) [[likely]]
      return true;
    phase_ = phase::served;
    return false;
  }

  // The coroutine goes on by a resumption. A guard belongs to what its thread is doing for the
  // library, and where that is nothing, to everything that thread will ever do: nobody hears when a
  // coroutine of another library suspends. A resumption gives the thread its chain back then.
  static bool begins_anew(const thread_state& t, bool turn_ended) noexcept {
    return turn_is_over(turn_ended) || t.bounce == nullptr;
  }

  template <class P>
  bool own_here(std::coroutine_handle<P> h) noexcept {
    give_up_waiting();
    const thread_state& t = here();
    return begins_anew(t, t.turn_has_ended()) && give_turn(h);
  }

  TURNSTILE_INLINE section_guard own() noexcept {
    thread_state& t = here();
    section_guard guard = guard_access::own(*section_, *std::exchange(hold_, nullptr), t);
    if (t.bounce == nullptr) [[unlikely]]
      guard.detach();  // somebody took the result out on a thread of their own
    return guard;
  }

  std::tuple<Data*...> data_;
};

}  // namespace turnstile::detail
