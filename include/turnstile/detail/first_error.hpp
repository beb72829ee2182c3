// first_error.hpp - of several errors the one that counts: what happened first, but a cancellation
// only if there is nothing else, for it follows from something.
#pragma once

#include <turnstile/detail/atomic.hpp>

#include <exception>
#include <utility>

namespace turnstile::detail {

bool is_cancellation(const std::exception_ptr& error) noexcept;

// Of things that end at any time, on any thread.
//
// Edges  taken is relaxed: it only picks who writes. The errors themselves are ordered by what
//        tells the reader that all have ended.
class first_error {
 public:
  void note(std::exception_ptr error) noexcept {
    if (error == nullptr) return;
    first& of_its_kind = is_cancellation(error) ? cancellation_ : error_;
    if (!of_its_kind.taken.exchange(true, relaxed)) of_its_kind.error = std::move(error);
  }

  // Once all have ended.
  void rethrow() const {
    if (error_.error != nullptr) std::rethrow_exception(error_.error);
    if (cancellation_.error != nullptr) std::rethrow_exception(cancellation_.error);
  }

 private:
  struct first {
    atomic<bool> taken{false};
    std::exception_ptr error;
  };

  first error_;
  first cancellation_;
};

}  // namespace turnstile::detail
