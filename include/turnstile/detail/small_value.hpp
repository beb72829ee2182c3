// small_value.hpp - what a variable of a small type holds: everything in one double word.
#pragma once

#include <turnstile/detail/double_word.hpp>
#include <turnstile/detail/own_change.hpp>
#include <turnstile/snapshot.hpp>

#include <cstdint>
#include <functional>
#include <optional>

namespace turnstile::detail {

template <class T>
class small_value;

#if TURNSTILE_DOUBLE_WORD
template <class T>
class small_value {
 public:
  explicit small_value(const T& initial) noexcept : word_(detail::bits_of(initial)) {}

  snapshot<T> read() const noexcept {
    const versioned_bits now = word_.load();
    return made(value_of<T>(now.bits), now.version);
  }

  using prepared = T;
  static prepared prepare(const T& value) noexcept { return value; }

  // What writes throws std::logic_error inside a change of this thread's own, which would begin
  // again for ever.
  snapshot<T> assign(prepared value) {
    detail::refuse_if_changed_here(this);
    const std::uint64_t bits = detail::bits_of(value);
    versioned_bits seen = word_.load();
    while (!word_.swap_if(seen, {seen.version + 1, bits})) {
    }
    return made(value, seen.version + 1);
  }

  template <class F>
  snapshot<T> update(F&& f) {
    detail::refuse_if_changed_here(this);
    const own_change inside_f(this);
    versioned_bits seen = word_.load();
    for (;;) {
      T value = value_of<T>(seen.bits);
      std::invoke(f, value);
      const versioned_bits next{seen.version + 1, detail::bits_of(value)};
      if (word_.swap_if(seen, next)) return made(value, next.version);
    }
  }

  std::optional<snapshot<T>> compare_assign(std::uint64_t version, const T& value) {
    detail::refuse_if_changed_here(this);
    versioned_bits seen = word_.load();
    const versioned_bits next{version + 1, detail::bits_of(value)};
    if (seen.version != version || !word_.swap_if(seen, next)) return std::nullopt;
    return made(value, next.version);
  }

  std::uint64_t version() const noexcept { return word_.version(); }
  std::uint64_t copies() const noexcept { return 0; }

 private:
  static snapshot<T> made(const T& value, std::uint64_t version) noexcept {
    return snapshot<T>(small_share<T>(value, version));
  }

  double_word word_;
};
#endif

}  // namespace turnstile::detail
