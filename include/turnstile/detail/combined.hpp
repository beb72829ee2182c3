// combined.hpp - one value made of several replicas'.
#pragma once

#include <turnstile/aggregation.hpp>
#include <turnstile/detail/arithmetic.hpp>
#include <turnstile/detail/config.hpp>
#include <turnstile/variable.hpp>

#include <cstddef>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

namespace turnstile::detail {

// A replica, on cache lines of its own.
template <class T>
struct alignas(cache_line) replica {
  explicit replica(const T& initial) : own(initial) {}
  variable<T> own;
};

template <class T>
void require_can_combine(std::size_t replicas, aggregation how) {
  if (replicas == 0) throw std::invalid_argument("turnstile: there has to be at least one replica");
  const bool adds = how == aggregation::sum || how == aggregation::mean;
  if ((adds && !can_add<T, T>) || (how == aggregation::mean && !can_divide<T>)) {
    throw std::invalid_argument("turnstile: the type has no operators for this aggregation");
  }
}

template <class T>
std::deque<replica<T>> replicas_of(const T& initial, std::size_t n, aggregation how) {
  require_can_combine<T>(n, how);
  std::deque<replica<T>> all;
  for (std::size_t i = 0; i != n; ++i) all.emplace_back(initial);
  return all;
}

inline void require_some(aggregation how) {
  if (how == aggregation::none) {
    throw std::logic_error(
        "turnstile: the replicas' values are combined, and the aggregation is none");
  }
}

inline void require_replica(std::size_t replica, std::size_t replicas) {
  if (replica >= replicas) {
    throw std::out_of_range("turnstile: there is no replica " + std::to_string(replica) +
                            ": they are counted from 0, and there are " + std::to_string(replicas));
  }
}

// `add_others(sum)` adds the values of replicas 1 to n - 1. A template, for it may not compile for
// a T that is never added.
template <class T, class Next>
T combined(T first, std::size_t n, aggregation how, Next&& add_others) {
  if (how == aggregation::first_replica) return first;
  if constexpr (can_add<T, T>) {
    if constexpr (can_divide<T>) {
      if (how == aggregation::mean) {
        typename summed<T>::type sum = std::move(first);
        add_others(sum);
        return detail::divided<T>(sum, n);
      }
    }
    add_others(first);
  }
  return first;
}

}  // namespace turnstile::detail
