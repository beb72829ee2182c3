// captured.hpp - an error as a value.
#pragma once

#include <exception>

namespace turnstile::detail {

// What `f` throws; null: nothing.
template <class F>
std::exception_ptr captured(F f) noexcept {
  try {
    f();
    return nullptr;
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace turnstile::detail
