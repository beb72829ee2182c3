// arithmetic.hpp - adding, subtracting and averaging values of types that have some of the
// operators.
#pragma once

#include <turnstile/detail/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace turnstile::detail {

template <class T, class D>
concept can_add =
    requires(T& t, const D& d) { t += d; } || requires(T& t, const D& d) { t = t + d; };
template <class T, class D>
concept can_subtract =
    requires(T& t, const D& d) { t -= d; } || requires(T& t, const D& d) { t = t - d; };
template <class T>
concept can_divide = std::is_arithmetic_v<T> || requires(const T& t) {
  { t / 1.0 } -> std::convertible_to<T>;
} || requires(const T& t) {
  { t / std::ptrdiff_t{1} } -> std::convertible_to<T>;
} || requires(const T& t) {
  { t / std::size_t{1} } -> std::convertible_to<T>;
};

template <class T, class D>
  requires can_add<T, D>
void add_to(T& t, const D& d) {
  if constexpr (std::is_arithmetic_v<T> && std::is_arithmetic_v<D>) {
    using both = std::common_type_t<T, D>;
    t = static_cast<T>(static_cast<both>(t) + static_cast<both>(d));
  } else if constexpr (requires { t += d; }) {
    t += d;
  } else {
    t = t + d;
  }
}

template <class T, class D>
  requires can_subtract<T, D>
void subtract_from(T& t, const D& d) {
  if constexpr (std::is_arithmetic_v<T> && std::is_arithmetic_v<D>) {
    using both = std::common_type_t<T, D>;
    t = static_cast<T>(static_cast<both>(t) - static_cast<both>(d));
  } else if constexpr (requires { t -= d; }) {
    t -= d;
  } else {
    t = t - d;
  }
}

// What a mean is made of: of integers a type that holds the sum of as many of them as there can be,
// and their sign.
template <class T>
struct summed {
  using type = T;
};
template <std::integral T>
  requires(sizeof(T) < sizeof(std::int64_t))
struct summed<T> {
  using type = std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>;
};
template <std::integral T>
  requires(sizeof(T) == sizeof(std::int64_t))
struct summed<T> {
  __extension__ using type = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
};

template <can_divide T>
T divided(const typename summed<T>::type& t, std::size_t n) {
  if constexpr (std::is_arithmetic_v<T>) {
    return static_cast<T>(t / static_cast<typename summed<T>::type>(n));
  } else if constexpr (requires {
                         { t / 1.0 } -> std::convertible_to<T>;
                       }) {
    return t / static_cast<double>(n);
  } else if constexpr (requires {
                         { t / std::ptrdiff_t{1} } -> std::convertible_to<T>;
                       }) {
    return t / static_cast<std::ptrdiff_t>(n);  // a duration takes the sign of both
  } else {
    return t / n;
  }
}

}  // namespace turnstile::detail
