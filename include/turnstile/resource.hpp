// resource.hpp - what executions say they use, so that two sections cannot guard one thing.
//
// Behind it: lib/registry (claims.cpp); the rule and its protocol are in detail/claims.hpp.
#pragma once

#include <turnstile/detail/claims.hpp>

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

namespace turnstile {

class resource_ref;
template <class T>
class device_buffer;

namespace detail {
// The same for all that refer to one thing.
const void* identity_of(const resource_ref& r) noexcept;
}  // namespace detail

/// An identity that sits beside the data it stands for, for `execute_options::uses`.
///
/// A section that uses it claims it until the section or the resource is destroyed. Another section
/// that asks for it gets `exclusive_access_error`, unless both asked with
/// `exclusive_resource_access = false`.
///
/// Threads    used from any thread; the destructor from one, when nothing uses it
/// Progress   what a section has claimed before is one load; the first claim takes a lock
/// Lifetime   must outlive the executions that use it; the claims on it end with it
class resource {
 public:
  /// `name` is copied and appears in errors. A section on another device than `place` refuses it,
  /// but what is on the host only to device executions.
  explicit resource(std::string_view name = {}, device place = device::any())
      : identity_(name, place) {}

 private:
  friend class resource_ref;

  detail::resource_identity identity_;
};

/// Refers to something with an identity.
class resource_ref {
 public:
  resource_ref(const resource& r) noexcept : resource_ref(r.identity_) {}
  resource_ref(const detail::resource_identity& identity) noexcept
      : thing_(&identity), by_address_(false) {}
  template <class T>
  resource_ref(const device_buffer<T>& b) noexcept : resource_ref(*b.identity_) {}

 private:
  friend class resource_list;
  friend struct detail::claims_book;
  friend const void* detail::identity_of(const resource_ref& r) noexcept;
  template <class T>
  friend resource_ref resource_of(const T& object);

  resource_ref(const void* thing, bool by_address) noexcept
      : thing_(thing), by_address_(by_address) {}

  const void* thing_;  // an identity, or an object of any type
  bool by_address_;
};

static_assert(std::is_trivially_copyable_v<resource_ref>);

inline const void* detail::identity_of(const resource_ref& r) noexcept { return r.thing_; }

/// The identity of an address: for data that has no `resource` beside it. Objects that begin at one
/// address are one. What has an identity of its own keeps that.
///
/// Lifetime   an address has no destructor: the claims on it stay until the sections that made them
///            are destroyed
template <class T>
resource_ref resource_of(const T& object) {
  if constexpr (std::convertible_to<const T&, resource_ref>) {
    return object;
  } else {
    return {static_cast<const void*>(std::addressof(object)), true};
  }
}

/// Up to 8 identities, inline.
class resource_list {
 public:
  static constexpr std::size_t most = 8;

  constexpr resource_list() noexcept = default;
  /// 1 to 8 things that convert to resource_ref.
  template <class... R>
    requires(sizeof...(R) >= 1 && sizeof...(R) <= most &&
             (std::convertible_to<const R&, resource_ref> && ...))
  resource_list(const R&... things) {
    (add(things), ...);
  }
  /// Throws `std::length_error` if there are more than 8.
  resource_list(std::span<const resource_ref> things) {
    if (things.size() > most) too_long(things.size());
    for (const resource_ref& r : things) add(r);
  }

  constexpr std::size_t size() const noexcept { return static_cast<std::uint32_t>(shape_); }
  constexpr bool empty() const noexcept { return shape_ == 0; }
  resource_ref operator[](std::size_t i) const noexcept {
    return {things_[i], (shape_ >> i >> 32 & 1) != 0};
  }

 private:
  friend class detail::section_request;
  friend struct detail::claims_book;

  // Says true only if all of them are identities that this section alone has claimed. Of a list
  // that is not empty. Quick, for it is asked in every execution: bench/uncontended.
  bool claimed_by(std::uint32_t section) const noexcept {
    if (shape_ > 3) return false;  // there are more, or an address
    const auto is = [this, section](std::size_t i) {
      return static_cast<const detail::resource_identity*>(things_[i])->claimed_by(section);
    };
    return is(0) && is(1) && is(2);
  }

  resource_list without(const resource_list& others) const noexcept {
    resource_list left;
    for (std::size_t i = 0; i != size(); ++i) {
      if (!others.has((*this)[i])) left.add((*this)[i]);
    }
    return left;
  }
  bool has(const resource_ref& r) const noexcept {
    for (std::size_t i = 0; i != size(); ++i) {
      const resource_ref mine = (*this)[i];
      if (mine.thing_ == r.thing_ && mine.by_address_ == r.by_address_) return true;
    }
    return false;
  }

  [[noreturn]] static void too_long(std::size_t n);

  void add(const resource_ref& r) noexcept {
    if (empty()) std::ranges::fill(things_, r.thing_);
    things_[size()] = r.thing_;
    shape_ |= std::uint64_t{r.by_address_} << 32 << size();
    ++shape_;
  }

  std::array<const void*, most> things_{};  // those not used repeat the first: see claimed_by
  std::uint64_t shape_ = 0;  // the size, and from 2^32 on a bit for each that is an address
};

static_assert(std::is_trivially_copyable_v<resource_list>);

}  // namespace turnstile
