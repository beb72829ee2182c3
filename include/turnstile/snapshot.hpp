// snapshot.hpp - a value that a variable had at one moment.
//
// Behind it: detail/value_block.hpp.
#pragma once

#include <turnstile/detail/double_word.hpp>
#include <turnstile/detail/value_block.hpp>

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace turnstile {
namespace detail {

// A small value, as part of its snapshot.
template <class T>
class small_share {
 public:
  small_share(const T& value, std::uint64_t version) noexcept : value_(value), version_(version) {}

  const T& value() const noexcept { return value_; }
  std::uint64_t version() const noexcept { return version_; }

 private:
  T value_;
  std::uint64_t version_;
};

template <class T>
using snapshot_share = std::conditional_t<fits_double_word<T>, small_share<T>, block_share<T>>;

}  // namespace detail

/// A value that a variable had, with its version. It never changes and may outlive the variable.
///
/// Threads    any number may read and copy one; it must not be assigned to while another thread
///            uses it
/// Progress   copying and destroying is wait-free; the last one frees the value
/// Lifetime   what * and -> refer to lives as long as some copy of this snapshot; one that was
///            moved from may only be destroyed or assigned to
template <class T>
class snapshot {
 public:
  explicit snapshot(detail::snapshot_share<T> share) noexcept : share_(std::move(share)) {}

  const T& operator*() const noexcept { return share_.value(); }
  const T* operator->() const noexcept { return std::addressof(share_.value()); }
  std::uint64_t version() const noexcept { return share_.version(); }

 private:
  detail::snapshot_share<T> share_;
};

}  // namespace turnstile
