// arithmetic.hpp - adding, subtracting and averaging values of types that have some of the operators.
#pragma once

#include <concepts>
#include <cstddef>
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
  if constexpr (requires { t += d; }) {
    t += d;
  } else {
    t = t + d;
  }
}

template <class T, class D>
  requires can_subtract<T, D>
void subtract_from(T& t, const D& d) {
  if constexpr (requires { t -= d; }) {
    t -= d;
  } else {
    t = t - d;
  }
}

template <can_divide T>
T divided(const T& t, std::size_t n) {
  if constexpr (std::is_arithmetic_v<T>) {
    // In the type itself, unless that is too small for n: no sign is lost, nor a large value.
    if constexpr (sizeof(T) >= sizeof(std::size_t) || std::is_floating_point_v<T>) {
      return t / static_cast<T>(n);
    } else {
      return static_cast<T>(static_cast<std::ptrdiff_t>(t) / static_cast<std::ptrdiff_t>(n));
    }
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
