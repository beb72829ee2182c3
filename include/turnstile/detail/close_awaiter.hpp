// close_awaiter.hpp - what co_await section.close() does.
//
// The first to close takes the last place in line; when that is served, everybody who waits for the
// end is resumed. Whoever comes later only joins that list. After a closer was added by somebody who
// is not the first, nothing is touched any more: the section may be gone.
#pragma once

#include <turnstile/detail/section_request.hpp>

#include <coroutine>
#include <source_location>
#include <utility>

namespace turnstile::detail {

class [[nodiscard("nothing is closed until the result is awaited")]] close_awaiter
    : private section_request,
      private section_core::closer {
 public:
  close_awaiter(section_core& section, const std::source_location& where) noexcept
      : section_request(section, {}, where) {}
  close_awaiter(close_awaiter&& other) noexcept : section_request(std::move(other)) {}

  bool await_ready() {
    begin();
    return false;
  }

  template <class P>
  bool await_suspend(std::coroutine_handle<P> h) {
    suspend_as(h, &end, true);
    tell_of_end();
    closer::over = &end_of_wait;
    closer::done = &resume_closer;
    section_core& section = *section_;
    section_core::place line;
    switch (section.close(line)) {
      case arrival::closed:
        if (section.add_closer(*this)) return true;
        return stay_here(h);
      case arrival::queued:
        section.add_closer(*this);
        section.publish_closing(*this, line);
        return true;
      default: break;
    }
    section.add_closer(*this);
    section.serve_first(line, *this, nullptr);
    return true;
  }

  void await_resume() noexcept { waited(); }

 private:
  static outcome end(request&) noexcept { return outcome::closed; }
  static void end_of_wait(closer& c) noexcept { static_cast<close_awaiter&>(c).turn_has_come(); }
  static void resume_closer(closer& c) noexcept { resume_at_home(static_cast<close_awaiter&>(c)); }
};

}  // namespace turnstile::detail
