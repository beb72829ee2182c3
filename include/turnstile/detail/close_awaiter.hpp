// close_awaiter.hpp - what co_await section.close() does.
//
// The first to close takes the last place in line, with a request of the section's own; when that
// is served, everybody who waits for the end is resumed. Whoever comes later only joins that list.
// Each waits behind a stand-in: below when_any, timeout or a scope that stops the wait may end
// before, and the section is closed all the same. After a closer was added by somebody who is not
// the first, the section is not touched any more: it may be gone.
#pragma once

#include <turnstile/detail/section_request.hpp>

#include <coroutine>
#include <new>
#include <source_location>
#include <utility>

namespace turnstile::detail {

class [[nodiscard("nothing is closed until the result is awaited")]] close_awaiter
    : private section_request {
 public:
  close_awaiter(section_core& section, const std::source_location& where)
      : section_request(section, {}, where) {}
  close_awaiter(close_awaiter&& other) noexcept : section_request(std::move(other)) {}

  // Below what is stopped already it closes as well.
  bool await_ready() {
    note_begun();
    if (is_in_chain(here().chain)) check_reentry();
    if (section_->has_closed()) return true;
    section_->prepare_closing();
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    suspend_as(h, &never, true);
    if (!surrounding_stop(chain_).stop_requested()) tell_of_end();
    arrived_ = arrival::owner;  // for make_stand_in: it waits in no line
    stand_in* const s = make_stand_in(turn_comes_once);
    if (s == nullptr) {
      give_up_waiting();
      throw std::bad_alloc();
    }
    s->stands = stand_in::position::neither;
    if (!close_and_wait(*s)) {
      give_up_closing();
      return stay_here(h);
    }
    return !was_withdrawn_meanwhile(*s);  // this may be gone, unless it was
  }

  void await_resume() { waited(); }

 private:
  static outcome never(request&) noexcept { return outcome::finished; }

  // False: it is closed already.
  bool close_and_wait(stand_in& s) noexcept {
    section_core& section = *section_;
    section_core::place line;
    switch (section.close(line)) {
      case arrival::closed: return section.add_closer(s);
      case arrival::queued:
        section.add_closer(s);
        section.publish_closing(line);
        return true;
      default: break;
    }
    section.add_closer(s);
    section.serve_closing(line);
    return true;
  }
};

}  // namespace turnstile::detail
