// stored_body.hpp - a body in the request that it was given to.
#pragma once

#include <turnstile/detail/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <utility>

namespace turnstile::detail {

// A closure in a co_await is written word by word into the awaiting frame, and copied from there at
// once. g++ copies it as vectors, which the store buffer cannot forward: an execute with two
// captured references took five times as long as one with one (bench/tried.md). The empty asm keeps
// two words from becoming one vector.
template <class Body, class From>
inline constexpr bool goes_by_words =
#if defined(__GNUC__) && !defined(__clang__)
    std::is_same_v<std::remove_cvref_t<From>, Body> && std::is_trivially_copyable_v<Body> &&
    std::is_trivially_constructible_v<Body, From> && sizeof(Body) > sizeof(std::uint64_t) &&
    sizeof(Body) <= 8 * sizeof(std::uint64_t);
#else
    false;
#endif

template <class Word>
TURNSTILE_INLINE void copy_word(std::byte* to, const std::byte* from) noexcept {
  Word w;
  std::memcpy(&w, from, sizeof w);
  asm("" : "+r"(w));
  std::memcpy(to, &w, sizeof w);
}

template <std::size_t size>
TURNSTILE_INLINE void copy_words(std::byte* to, const std::byte* from) noexcept {
  if constexpr (size >= 8) {
    copy_word<std::uint64_t>(to, from);
    copy_words<size - 8>(to + 8, from + 8);
  } else if constexpr (size >= 4) {
    copy_word<std::uint32_t>(to, from);
    copy_words<size - 4>(to + 4, from + 4);
  } else if constexpr (size >= 1) {
    copy_word<std::uint8_t>(to, from);
    copy_words<size - 1>(to + 1, from + 1);
  }
}

// Some of it may be padding, which nobody has written. The compiler is told otherwise, for it would
// warn of that in users' code.
template <std::size_t size>
TURNSTILE_INLINE const std::byte* all_written(const void* at) noexcept {
  auto* const bytes = static_cast<std::byte*>(const_cast<void*>(at));
  asm("" : "+m"(*reinterpret_cast<std::byte(*)[size]>(bytes)));
  return bytes;
}

template <class Body>
class stored_body {
 public:
  template <class B>
    requires(!std::is_same_v<std::remove_cvref_t<B>, stored_body>)
  TURNSTILE_INLINE explicit stored_body(B&& body) noexcept(
      std::is_nothrow_constructible_v<Body, B>) {
    make(std::forward<B>(body));
  }
  stored_body(stored_body&& other) noexcept(std::is_nothrow_move_constructible_v<Body>) {
    make(std::move(other.body_));
  }
  stored_body(const stored_body& other)
    requires std::is_copy_constructible_v<Body>
  {
    make(other.body_);
  }
  stored_body& operator=(stored_body&&) = delete;
  TURNSTILE_INLINE ~stored_body() { std::destroy_at(std::addressof(body_)); }

  Body& operator*() noexcept { return body_; }

 private:
  template <class B>
  TURNSTILE_INLINE void make(B&& body) {
    if constexpr (goes_by_words<Body, B>) {
      copy_words<sizeof(Body)>(reinterpret_cast<std::byte*>(std::addressof(body_)),
                               all_written<sizeof(Body)>(std::addressof(body)));
    } else {
      std::construct_at(std::addressof(body_), std::forward<B>(body));
    }
  }

  union {
    Body body_;
  };
};

}  // namespace turnstile::detail
