// per_replica.hpp - a value for each replica, combined when it is read.
//
// Behind it: variable.hpp.
#pragma once

#include <turnstile/aggregation.hpp>
#include <turnstile/detail/combined.hpp>
#include <turnstile/variable.hpp>

#include <cstddef>
#include <deque>
#include <utility>

namespace turnstile {

/// One value for each replica (a worker, a device), written without any contact with the others and
/// combined on read: an accumulator.
///
/// Threads    every member from any thread
/// Order      each replica's writes are atomic; a read takes the replicas one after the other, so
///            what is written meanwhile may or may not be in it
/// Memory     a read sees what came before each write that is in it
/// Progress   as a variable, one for each replica, on cache lines of its own
/// Claims     each replica as a variable of its own: inside a body the section held claims the one
///            that is written, and for read one after the other all that it combines
/// Throws     constructor: std::invalid_argument without replicas, or if T lacks the operators that
///            the aggregation needs. std::out_of_range for a replica that does not exist. read:
///            std::logic_error if the aggregation is none. Else as a variable:
///            exclusive_access_error before that replica is read or written; what T throws;
///            bad_alloc (never for small values)
/// Lifetime   as a variable: snapshots may outlive it
template <class T>
class per_replica {
 public:
  /// Each replica begins with `initial`.
  per_replica(std::size_t replicas, T initial, aggregation how)
      : how_(how), values_(detail::replicas_of(initial, replicas, how)) {}
  per_replica(const per_replica&) = delete;
  per_replica& operator=(const per_replica&) = delete;

  snapshot<T> assign(std::size_t replica, T value) { return at(replica).assign(std::move(value)); }

  snapshot<T> assign_add(std::size_t replica, const T& amount)
    requires detail::can_add<T, T>
  {
    return at(replica).assign_add(amount);
  }

  T read() const {
    detail::require_some(how_);
    return detail::combined(T(*values_.front().own.read()), values_.size(), how_,
                            [this](auto& sum) {
                              for (std::size_t i = 1; i != values_.size(); ++i) {
                                detail::add_to(sum, *values_[i].own.read());
                              }
                            });
  }

 private:
  variable<T>& at(std::size_t replica) {
    detail::require_replica(replica, values_.size());
    return values_[replica].own;
  }

  const aggregation how_;
  std::deque<detail::replica<T>> values_;
};

}  // namespace turnstile
