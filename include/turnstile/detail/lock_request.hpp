// lock_request.hpp - a request for a guard, whatever the guard is.
#pragma once

#include <turnstile/detail/section_request.hpp>

#include <exception>
#include <source_location>
#include <utility>

namespace turnstile::detail {

class lock_request : protected section_request {
 public:
  // By whoever serves it.
  static bool is_one(const request& r) noexcept { return r.start == &grant; }

 protected:
  TURNSTILE_INLINE lock_request(section_core& section, const execute_options& options,
                                const std::source_location& where)
      : section_request(section, options, where) {}
  lock_request(lock_request&& other) noexcept : section_request(std::move(other)) {}
  ~lock_request() {
    if (hold_ != nullptr) drop_unused(*hold_);
  }

  static outcome grant(request& r) noexcept;

  std::exception_ptr refusal_;
  hold_frame* hold_ = nullptr;  // not beside section_: see site::copy_fresh
};

}  // namespace turnstile::detail
