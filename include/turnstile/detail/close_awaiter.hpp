// close_awaiter.hpp - what co_await section.close() does.
//
// The first to close takes the last place in line; when that is served, everybody who waits for the
// end is resumed. Whoever comes later only joins that list. After a closer was added by somebody who
// is not the first, nothing is touched any more: the section may be gone.
#pragma once

#include <turnstile/detail/section_core.hpp>
#include <turnstile/detail/suspended.hpp>

#include <coroutine>
#include <source_location>

namespace turnstile::detail {

class [[nodiscard("nothing is closed until the result is awaited")]] close_awaiter
    : private suspended<request>, private section_core::closer {
 public:
  close_awaiter(section_core& section, const std::source_location& where) noexcept
      : section_(&section), at_{{}, where} {}
  close_awaiter(close_awaiter&& other) noexcept : section_(other.section_), at_(other.at_) {}

  bool await_ready() {
    if (here().chain != nullptr) refuse_if_held(*section_, at_);
    return false;
  }

  bool await_suspend(std::coroutine_handle<> h) noexcept {
    suspend(h);
    closer::done = &resume_closer;
    start = &end;
    may_wait = true;
    section_core& section = *section_;
    section_core::place line;
    switch (section.close(line)) {
      case arrival::closed:
        if (section.add_closer(*this)) return true;
        stay();
        return false;
      case arrival::queued:
        section.add_closer(*this);
        section.publish_closing(*this, line);
        return true;
      case arrival::owner:
        break;
    }
    section.add_closer(*this);
    section.serve_first(line, *this, nullptr);
    return true;
  }

  void await_resume() const noexcept {}

 private:
  static outcome end(request&) noexcept { return outcome::closed; }
  static void resume_closer(closer& c) noexcept { resume_at_home(static_cast<close_awaiter&>(c)); }

  section_core* section_;
  site at_;
};

}  // namespace turnstile::detail
