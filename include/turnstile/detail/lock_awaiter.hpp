// lock_awaiter.hpp - what co_await section.lock() does.
#pragma once

#include <turnstile/detail/awaitable.hpp>
#include <turnstile/detail/lock_request.hpp>
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
  lock_awaiter(section_core& section, const execute_options& options,
               const std::source_location& where, Data*... data)
      : lock_request(section, options, where), data_(data...) {}
  lock_awaiter(lock_awaiter&& other) noexcept
      : lock_request(std::move(other)), data_(other.data_) {}

  bool await_ready() {
    begin();
    hold_ = make_hold(*section_, at_);  // before the request is made: this may fail
    claim_uses();
    arrive();
    if (arrived_ != arrival::owner || must_hop()) return false;
    if (section_->watched() || section_->is_lost()) return false;
    keep_uses();
    section_->hold_first(line_);
    if (withdraws()) end_withdrawal();
    if (!begins_anew()) return true;
    phase_ = phase::served;
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    if (phase_ == phase::served) return give_turn(h);
    request* const own = must_hop() ? nullptr : this;
    suspend_as(h, &grant, true);
    switch (wait_in_line(own, false)) {
      case line_entry::waits: return true;
      case line_entry::is_served: return own_here(h);
      case line_entry::withdrawn: break;
    }
    return false;
  }

  Guard await_resume() {
    waited();
    if (refusal_ != nullptr) [[unlikely]]
      std::rethrow_exception(std::move(refusal_));
    return std::apply([this](Data*... data) { return Guard(own(), data...); }, data_);
  }

 private:
  // The coroutine goes on by a resumption. A guard belongs to what its thread is doing for the
  // library, and where that is nothing, to everything that thread will ever do: nobody hears when a
  // coroutine of another library suspends. A resumption gives the thread its chain back then.
  static bool begins_anew() noexcept { return turn_is_over() || !resumes_here(); }

  template <class P>
  bool own_here(std::coroutine_handle<P> h) noexcept {
    give_up_waiting();
    return begins_anew() && give_turn(h);
  }

  section_guard own() noexcept {
    section_guard guard = guard_access::own(*section_, *std::exchange(hold_, nullptr));
    if (!resumes_here()) guard.detach();  // somebody took the result out on a thread of their own
    return guard;
  }

  std::tuple<Data*...> data_;
};

}  // namespace turnstile::detail
