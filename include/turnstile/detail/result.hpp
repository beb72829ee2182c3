// result.hpp - what a body or task left behind: nothing yet, a value, or an exception.
#pragma once

#include <exception>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

struct nothing_yet {};
struct unsaid {};

template <class R>
constexpr bool require_movable() noexcept {
  constexpr bool is_movable = std::is_void_v<R> || std::is_reference_v<R> ||
                              std::is_move_constructible_v<std::remove_cv_t<R>>;
  static_assert(is_movable,
                "what a body or a task returns is moved to whoever awaits it: return something "
                "that can be moved, or a reference");
  return is_movable;
}

template <class R>
class result {
  using stored = std::conditional_t<
      std::is_void_v<R>, nothing_yet,
      std::conditional_t<std::is_reference_v<R>, std::add_pointer_t<R>, std::remove_cv_t<R>>>;

 public:
  // A value need not be destroyed, nor told from nothing.
  static constexpr bool value_just_ends = std::is_trivially_destructible_v<stored>;

  result() noexcept : state_(state::empty) {}
  // Nothing may be asked of it but value(), until note_value() or fail.
  explicit result(unsaid) noexcept {}
  ~result() { clear(); }
  result(const result&) = delete;
  result& operator=(const result&) = delete;

  // Keeps what `f` returns or throws, once and not after fail. The value is made in place. False:
  // it threw.
  template <class F>
  bool run(F&& f) noexcept {
    try {
      if constexpr (std::is_void_v<R>) {
        std::forward<F>(f)();
      } else if constexpr (std::is_reference_v<R>) {
        R&& got = std::forward<F>(f)();
        value_ = std::addressof(got);
      } else {
        ::new (static_cast<void*>(std::addressof(value_))) stored(std::forward<F>(f)());
      }
      if constexpr (!value_just_ends) state_ = state::value;
      return true;
    } catch (...) {
      fail(std::current_exception());
      return false;
    }
  }

  void note_value() noexcept { state_ = state::value; }
  void fail(std::exception_ptr error) noexcept {
    ::new (static_cast<void*>(std::addressof(error_))) std::exception_ptr(std::move(error));
    state_ = state::error;
  }

  // The same instead of a value.
  void replace(std::exception_ptr error) noexcept {
    clear();
    fail(std::move(error));
  }

  // What another one has, which keeps it as something moved from.
  void take_over(result& other) noexcept {
    if (other.failed()) {
      fail(std::move(other.error_));
    } else {
      run([&other]() -> R { return other.value(); });
    }
  }

  bool failed() const noexcept { return state_ == state::error; }

  std::exception_ptr error() const noexcept { return failed() ? error_ : nullptr; }

  // The value, once; or throws the exception.
  R take() {
    if (failed()) [[unlikely]]
      std::rethrow_exception(std::move(error_));
    return value();
  }

  // Of what has not failed.
  R value() noexcept(std::is_void_v<R> || std::is_reference_v<R> ||
                     std::is_nothrow_move_constructible_v<R>) {
    if constexpr (std::is_reference_v<R>) {
      return static_cast<R>(*value_);
    } else if constexpr (detail::require_movable<R>() && !std::is_void_v<R>) {
      return std::move(value_);
    }
  }

 private:
  enum class state : unsigned char { empty, value, error };

  void clear() noexcept {
    if (state_ == state::error) {
      std::destroy_at(std::addressof(error_));
    } else if constexpr (!value_just_ends) {
      if (state_ == state::value) std::destroy_at(std::addressof(value_));
    }
  }

  state state_;  // next to what lies before it, as a rule: see section_request
  union {
    stored value_;
    std::exception_ptr error_;
  };
};

}  // namespace turnstile::detail
