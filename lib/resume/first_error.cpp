// first_error.cpp - which errors are cancellations.

#include <turnstile/detail/first_error.hpp>
#include <turnstile/errors.hpp>

namespace turnstile::detail {

bool is_cancellation(const std::exception_ptr& error) noexcept {
  if (error == nullptr) return false;
  try {
    std::rethrow_exception(error);
  } catch (const operation_cancelled&) {
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace turnstile::detail
