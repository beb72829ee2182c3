// variable.hpp - a mutable place for immutable values.
//
// Behind it: lib/variable; the protocols are in detail/double_word.hpp (small values) and
// detail/value_cell.hpp (all others).
#pragma once

#include <turnstile/detail/arithmetic.hpp>
#include <turnstile/detail/claims.hpp>
#include <turnstile/detail/large_value.hpp>
#include <turnstile/detail/small_value.hpp>
#include <turnstile/resource.hpp>
#include <turnstile/snapshot.hpp>

#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

namespace turnstile {
namespace detail {

template <class T>
struct kept_value {
  using type = large_value<T>;
};
template <class T>
  requires fits_double_word<T>
struct kept_value<T> {
  using type = small_value<T>;
};

struct variable_access;

}  // namespace detail

/// A value that is read as a snapshot and written as a whole, each in one atomic step.
///
/// For state that many read and some write, and for counters. Several variables that belong
/// together, or a read and a write that do, need a critical_section.
///
/// Small values (trivially copyable, at most 8 bytes, on x86-64) are part of the variable: no lock,
/// no allocation. All others are in a block that snapshots share: a write copies the value if
/// somebody holds a snapshot of it, and else changes it in place. Assigning never copies.
///
/// Threads    every member from any thread; the destructor from one, after all other calls
/// Order      one order of all writes and reads of a variable
/// Memory     a read sees everything that came before the write that it finds
/// Progress   small: lock-free. Others: read never waits for a value that is copied, assigned, or
///            changed while somebody holds a snapshot of it. A value that nobody holds is changed
///            in place, without a copy; a read that begins meanwhile waits for that one change, and
///            blocks its thread as long as the function or operator takes. Writers wait for each
///            other. If reads must never wait, keep a snapshot of the newest value
/// Claims     inside a body that did not declare it in `uses`, the section held claims it when it
///            is touched
/// Throws     exclusive_access_error and device_mismatch_error at the touch, before anything is
///            read or written; what T and the functions given throw; bad_alloc (never for small
///            values); std::logic_error if the function that changes a value, or what it calls on
///            its thread, writes the same variable, or reads it while it is large and changed in
///            place (while a copy is changed, because somebody holds a snapshot, a read gives the
///            value before)
/// Lifetime   snapshots may outlive the variable
template <class T>
class variable {
  static_assert(std::is_object_v<T> && std::same_as<T, std::remove_cv_t<T>>,
                "a variable's value is an object, neither const nor volatile");
  static_assert(std::copy_constructible<T>, "a value with a snapshot is copied to be changed");

 public:
  /// `name` is copied and appears in errors. A section on another device than `place` refuses it,
  /// but what is on the host only to device executions that have it in `uses`.
  explicit variable(T initial, std::string_view name = {}, device place = device::any())
      : identity_(name, place), value_(std::move(initial)) {}
  variable(const variable&) = delete;
  variable& operator=(const variable&) = delete;

  /// The value at this moment. Nothing is copied, unless it is small.
  snapshot<T> read() const {
    touch();
    return value_.read();
  }

  /// Writes; returns the snapshot of what this call wrote. So do the other writes.
  snapshot<T> assign(T value) {
    touch();
    return value_.assign(value_.prepare(std::move(value)));
  }

  template <class D>
    requires detail::can_add<T, D>
  snapshot<T> assign_add(const D& amount) {
    touch();
    return value_.update([&amount](T& value) { detail::add_to(value, amount); });
  }

  template <class D>
    requires detail::can_subtract<T, D>
  snapshot<T> assign_sub(const D& amount) {
    touch();
    return value_.update([&amount](T& value) { detail::subtract_from(value, amount); });
  }

  /// Changes the value by fn(T&), which must not wait for anything, not in a fiber either: not even
  /// read another large variable whose function may at the same time read this one. Where T is
  /// small, `fn` may be called several times, each time on a fresh copy, so it must have no other
  /// effect.
  ///
  /// Throws     what `fn` throws. Then nothing is written if T is small, or somebody holds a
  ///            snapshot; a value that nobody holds stays as `fn` has left it, and that counts as a
  ///            write
  template <class F>
    requires std::invocable<F&, T&>
  snapshot<T> update(F&& fn) {
    touch();
    return value_.update(fn);
  }

  /// Writes if the version is still this one; else gives nothing and does nothing.
  std::optional<snapshot<T>> compare_assign(std::uint64_t version, T value) {
    touch();
    return value_.compare_assign(version, std::move(value));
  }

  /// Calls fn(const T&) on the value at this moment, which stays as it is during the call. A write
  /// meanwhile does not wait for that, and copies.
  ///
  /// Lifetime   what `fn` returns must not refer to the value, which may end with the call. If `fn`
  ///            is a pointer to a data member, that member is copied, and so cannot be an array
  template <std::invocable<const T&> F>
  decltype(auto) with_read_lock(F&& fn) const {
    touch();
    const snapshot<T> now = value_.read();
    if constexpr (std::is_member_object_pointer_v<std::remove_cvref_t<F>>) {
      using result = std::invoke_result_t<F, const T&>;
      using member = std::remove_cvref_t<result>;
      static_assert(std::is_constructible_v<member, result>,
                    "a member is copied, which this one cannot be: give a function instead of the "
                    "pointer");
      return member(std::invoke(fn, *now));
    } else {
      return std::invoke(std::forward<F>(fn), *now);
    }
  }

  /// 0 at first; every write adds 1.
  std::uint64_t version() const noexcept { return value_.version(); }

  /// How often a value was copied because somebody held a snapshot of it.
  std::uint64_t copies() const noexcept { return value_.copies(); }

  std::string_view name() const noexcept { return identity_.name(); }

  /// For `uses`: its identity.
  operator resource_ref() const noexcept { return identity_; }

  // They would read and write in two steps, or seem to.
  variable& operator+=(const auto&) = delete;
  variable& operator-=(const auto&) = delete;
  variable& operator*=(const auto&) = delete;
  variable& operator/=(const auto&) = delete;
  variable& operator%=(const auto&) = delete;
  variable& operator&=(const auto&) = delete;
  variable& operator|=(const auto&) = delete;
  variable& operator^=(const auto&) = delete;
  variable& operator<<=(const auto&) = delete;
  variable& operator>>=(const auto&) = delete;

 private:
  friend struct detail::variable_access;

  void touch() const { detail::touch(identity_); }

  detail::resource_identity identity_;
  typename detail::kept_value<T>::type value_;
};

/// For the library. Whoever serves others reads and assigns for them, and claims nothing.
struct detail::variable_access {
  template <class T>
  static void touch(const variable<T>& v) {
    v.touch();
  }
  template <class T>
  static snapshot<T> read(const variable<T>& v) {
    return v.value_.read();
  }
  template <class T>
  static snapshot<T> assign(variable<T>& v, typename kept_value<T>::type::prepared next) {
    return v.value_.assign(std::move(next));
  }
};

}  // namespace turnstile
